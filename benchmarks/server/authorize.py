"""Measure the cost of an authorization with ten ACL bindings and with ten thousand.

The heartbeats of a member repeat the same authorization; requests with many topics need
new ones. The cost of both should not depend on the bindings of other principals. Bars:
0.7 of the rate with few bindings, for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from coterie.auth.acl import (
    AclBinding,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer

FEW, MANY = 10, 10_000
BAR = 0.7
BATCH = 1_000
CALLER = RequestContext(Principal("User", "user-7"), "10.0.0.7")
NEW_NAMES = [f"team-7-{number}" for number in range(20_000)]
"""More names than the authorizer caches."""


def authorizer(bindings: int) -> AclAuthorizer:
    """Return an authorizer with literal and prefixed bindings of many principals."""
    made = AclAuthorizer()
    for number in range(bindings // 2):
        principal = Principal("User", f"user-{number}")
        for acl in (
            AclBinding(
                principal,
                PermissionType.ALLOW,
                Operation.READ,
                ResourceType.GROUP,
                f"group-{number}",
            ),
            AclBinding(
                principal,
                PermissionType.ALLOW,
                Operation.READ,
                ResourceType.TOPIC,
                f"team-{number}-",
                PatternType.PREFIXED,
            ),
        ):
            made.replay(acl.key, acl.to_value())
    return made


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure both sizes alternately in this process."""
    few, many = authorizer(2 * FEW), authorizer(MANY)
    for name, prepare in (
        ("repeated authorization", repeated_authorization),
        ("new authorization", new_authorization),
    ):
        pairs = alternate(
            rounds,
            partial(rate, prepare(many), rounds),
            partial(rate, prepare(few), rounds),
        )
        yield Figure(
            name=f"{name}: rate with {MANY:,} bindings relative to {2 * FEW}",
            value=median_ratio(pairs),
            bar=BAR,
            detail=f"{pairs[-1][0]:,.0f}/s and {pairs[-1][1]:,.0f}/s",
        )


def repeated_authorization(authorizer: AclAuthorizer) -> Callable[[], bool]:
    """Return a function that authorizes a heartbeat, which is cached."""
    return partial(
        authorizer.authorize, CALLER, Operation.READ, ResourceType.GROUP, "group-7"
    )


def new_authorization(authorizer: AclAuthorizer) -> Callable[[], bool]:
    """Return a function that authorizes without the cache."""
    names = cycle(NEW_NAMES)
    return lambda: authorizer.authorize(
        CALLER, Operation.DESCRIBE, ResourceType.TOPIC, next(names)
    )


def rate(authorize: Callable[[], bool], rounds: Rounds) -> float:
    """Return authorizations per second."""
    began = time.perf_counter()
    count = 0
    while (took := time.perf_counter() - began) < rounds.seconds:
        for _ in range(BATCH):
            assert authorize()
        count += BATCH
    return count / took
