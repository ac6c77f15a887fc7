"""What does it cost to ask who may do what, beside ten bindings and ten thousand?

Heartbeats of one member ask the same question again and again; a client that names many
topics asks new ones. Both must cost the same however many bindings speak of others.
Bars: 0.7 of the rate beside ten bindings, for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle

from benchmarks.figures import Figure, Rounds, alternate, median_ratio
from coterie.auth.acl import Acl, Pattern, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import Caller, Operation, Principal, ResourceType

FEW, MANY = 10, 10_000
BAR = 0.7
BATCH = 1_000
CALLER = Caller(Principal("User", "user-7"), "10.0.0.7")
NEW_NAMES = [f"team-7-{number}" for number in range(20_000)]
"""More than are remembered."""


def authorizer(bindings: int) -> AclAuthorizer:
    """Half of the bindings to a name, half to a prefix, each for another principal."""
    made = AclAuthorizer()
    for number in range(bindings // 2):
        principal = Principal("User", f"user-{number}")
        for acl in (
            Acl(
                principal,
                Permission.ALLOW,
                Operation.READ,
                ResourceType.GROUP,
                f"group-{number}",
            ),
            Acl(
                principal,
                Permission.ALLOW,
                Operation.READ,
                ResourceType.TOPIC,
                f"team-{number}-",
                Pattern.PREFIXED,
            ),
        ):
            made.replay(acl.key, acl.to_value())
    return made


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Both sizes in turns, in this process."""
    few, many = authorizer(2 * FEW), authorizer(MANY)
    for name, ask in ("the same right again", ask_again), ("new rights", ask_new):
        pairs = alternate(
            rounds, partial(rate, ask(many), rounds), partial(rate, ask(few), rounds)
        )
        yield Figure(
            name=f"asking for {name}: {MANY:,} bindings beside {2 * FEW}",
            value=median_ratio(pairs),
            bar=BAR,
            detail=f"{pairs[-1][0]:,.0f}/s and {pairs[-1][1]:,.0f}/s",
        )


def ask_again(authorizer: AclAuthorizer) -> Callable[[], bool]:
    """The question of a heartbeat."""
    return partial(
        authorizer.authorize, CALLER, Operation.READ, ResourceType.GROUP, "group-7"
    )


def ask_new(authorizer: AclAuthorizer) -> Callable[[], bool]:
    """A question that nobody remembers."""
    names = cycle(NEW_NAMES)
    return lambda: authorizer.authorize(
        CALLER, Operation.DESCRIBE, ResourceType.TOPIC, next(names)
    )


def rate(ask: Callable[[], bool], rounds: Rounds) -> float:
    """Questions a second."""
    begun = time.perf_counter()
    asked = 0
    while (took := time.perf_counter() - begun) < rounds.seconds:
        for _ in range(BATCH):
            assert ask()
        asked += BATCH
    return asked / took
