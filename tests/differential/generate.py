"""Draw the next action of a sequence from a seed and from what was played so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.schema import Message, Struct
from tests.differential import admin, classic, consumer, offsets, share
from tests.differential.play import Play
from tests.differential.rights import RIGHTS
from tests.differential.servers import ADMIN
from tests.differential.steps import Action, Ref, Step, Wait

TIMED_MS: Final = 800
"""Session and rebalance time-outs in sequences with timers."""
_ALL_PASSED_MS: Final = 4 * TIMED_MS
"""When a session has passed, the rebalance after it, and its syncs."""
UNTIMED_MS: Final = 60_000
_NEWEST: Final = {ApiKey.DELETE_GROUPS: 2}
"""Where Kafka 4.3.1 serves older versions only."""
_TWISTED: Final = 0.08
_TEXTS: Final = ("", " ", "%g1", "%g2", "none", "a" * 300, "\xe9", "range")
_NAMES: Final = ("", "%", "%g1", "%g2", "%none", "%\xe9", "%" + "a" * 250)
"""Names of groups and transactional ids, which no other play has."""
_NUMBERS: Final = (-3, -2, -1, 0, 1, 2, 3, 100, 32_767)
_LARGE: Final = (2**31 - 1, -(2**31))
# No 1, which is an earlier epoch in Kafka and may be the first one here.
_EPOCHS: Final = (-3, -2, -1, 0, 1_000, *_LARGE)
_BYTES: Final = (b"", b"\0", b"\0\1\xff\xff\xff\xff", b"\xff" * 8)


@dataclass(frozen=True, slots=True)
class Cast:
    """The actors of a sequence: which protocol and group each begins with."""

    groups: dict[str, str]
    protocols: dict[str, str]
    assignors: dict[str, str]
    user: str

    @classmethod
    def draw(cls, chance: Random) -> Cast:
        """Draw one to five actors in one or two groups, often of two protocols."""
        kind = chance.choice(("consumer", "classic", "both", "both", "share"))
        actors = [
            f"a{number}" for number in range(1, chance.choice((1, 2, 2, 3, 4, 5)) + 1)
        ]
        groups = {each: "%g2" if chance.random() < 0.15 else "%g1" for each in actors}
        protocols = {
            each: chance.choice(("consumer", "classic")) if kind == "both" else kind
            for each in actors
        }
        if kind == "share" and chance.random() < 0.3:
            # No group becomes one of another type: members of the others are refused.
            protocols[chance.choice(actors)] = chance.choice(("consumer", "classic"))
        assignors = {
            # With members of both protocols the choices of `uniform` depend on hashes.
            each: "uniform" if kind == "consumer" and chance.random() < 0.5 else "range"
            for each in ("%g1", "%g2")
        }
        user = chance.choice(list(RIGHTS)) if chance.random() < 0.1 else ADMIN
        return cls(groups, protocols, assignors, user)


class Generator:
    """The source of actions of one sequence."""

    def __init__(self, chance: Random, *, timers: bool = False) -> None:
        self._chance = chance
        self._cast = Cast.draw(chance)
        self._timeout_ms = TIMED_MS if timers else UNTIMED_MS
        self._waited_at: float | None = None
        self._begin = list(admin.short_sessions(TIMED_MS)) if timers else []
        self._is_classic = set(self._cast.protocols.values()) == {"classic"}
        # With several topics the choices of `uniform` depend on hashes of their ids.
        is_one = "uniform" in self._cast.assignors.values() or chance.random() < 0.3
        self._topics = ("t1",) if is_one else ("t1", "t2", "t3")

    def next(self, play: Play) -> Action:
        """Return the next action, of an actor who does not wait for a response."""
        chance = self._chance
        if self._begin:
            return self._begin.pop()
        if self._timeout_ms == TIMED_MS and self._is_wait_due():
            return Wait(_ALL_PASSED_MS)
        free = [each for each in self._cast.groups if not play.is_busy(each)]
        if not free:
            return Wait(30)
        actor = chance.choice(free)
        group = self._cast.groups[actor]
        can_change = (
            self._cast.assignors[group] == "range"
            and not self._is_classic
            and "share" not in self._cast.protocols.values()
        )
        if can_change and chance.random() < 0.03:
            # A process of the other protocol takes the place of this one.
            is_classic = self._cast.protocols[actor] == "classic"
            self._cast.protocols[actor] = "consumer" if is_classic else "classic"
        draw = Draw(
            chance, play, actor, group, self._cast, self._topics, self._timeout_ms
        )
        step = replace(self._source(actor)(draw), user=self._cast.user)
        return twisted(step, chance) if chance.random() < _TWISTED else step

    def _is_wait_due(self) -> bool:
        """Return whether all time-outs are to pass: by chance, and before one passes on
        one of the servers earlier than on the other."""
        now = time.monotonic()
        if self._waited_at is None:
            self._waited_at = now
        is_due = now - self._waited_at > TIMED_MS / 2000
        if is_due or self._chance.random() < 0.06:
            self._waited_at = None
            return True
        return False

    def _source(self, actor: str) -> Callable[[Draw], Step]:
        member = {
            "consumer": consumer.draw,
            "classic": classic.draw,
            "share": share.draw,
        }
        return self._chance.choices(
            (member[self._cast.protocols[actor]], offsets.draw, admin.draw),
            (7, 2, 2),
        )[0]


@dataclass(frozen=True, slots=True)
class Draw:
    """What a source of steps may look at."""

    chance: Random
    play: Play
    actor: str
    group: str
    cast: Cast
    topics: tuple[str, ...]
    timeout_ms: int

    def some_actor(self) -> str:
        """Return an actor of the group, most often the one whose turn it is."""
        if self.chance.random() < 0.9:
            return self.actor
        return self.other_actor()

    def other_actor(self) -> str:
        """Return any actor of the group: epochs of two groups are not comparable."""
        groups = self.cast.groups
        return self.chance.choice(
            [each for each in groups if groups[each] == self.group]
        )

    def version(self, request: type[Message]) -> int:
        """Draw a version, most often the newest."""
        key = ApiKey(request.API_KEY)
        served = api_of(key).served
        newest = min(served.high, _NEWEST.get(key, served.high))
        if self.chance.random() < 0.6:
            return newest
        return self.chance.randint(served.low, newest)

    def stale(self, actor: str) -> Ref:
        """Return an earlier epoch of an actor if that is one on both servers."""
        delta = -1 if (self.known("epoch", actor) or 0) > 2 else 1
        return Ref("epoch", actor, delta)

    def known(self, what: str, of: str | None = None) -> Any:
        """Return what Kafka has given to an actor, or None."""
        return self.play.bindings[0].values.get((what, of or self.actor))


def twisted(step: Step, chance: Random) -> Step:
    """Return the step with one field changed to an odd value of its type."""
    request = step.request
    places = [(owner, name) for owner, name in _places(request, step.version)]
    if not places:
        return step
    owner, name = chance.choice(places)
    copy = _replaced(request, owner, name, _odd(owner, name, step.version, chance))
    return replace(step, request=copy)


def _places(value: Any, version: int) -> list[tuple[Struct, str]]:
    """Return the fields that the version has, of the message and its structs."""
    if isinstance(value, list):
        return [place for each in value for place in _places(each, version)]
    if not isinstance(value, Struct):
        return []
    own = [
        (value, name)
        for name, declared in value.FIELDS.items()
        if version in declared.versions and declared.tag is None
    ]
    inner = [
        place
        for name in value.FIELDS
        for place in _places(getattr(value, name), version)
    ]
    return own + inner


def _odd(owner: Struct, name: str, version: int, chance: Random) -> Any:
    declared = owner.FIELDS[name]
    value = getattr(owner, name)
    odd: tuple[Any, ...]
    if name == "rebalance_timeout_ms":
        # A short one may pass before the next request, or after it.
        is_join = type(owner) is m.JoinGroupRequest
        return chance.choice((_LARGE[0],) if is_join else (-1, 0, _LARGE[0]))
    if name in {"group_id", "transactional_id", "key"}:
        return chance.choice(_NAMES)
    if isinstance(value, list):
        odd = ([], value + value, value[:1])
    elif declared.kind in {"array", "struct"}:
        odd = ([],) if declared.kind == "array" else (value,)
    else:
        odd = _odd_of(declared.kind)
        if isinstance(value, Ref):
            odd = (*(_EPOCHS if value.what == "epoch" else odd), value)
    if version in declared.nullable:
        odd = (*odd, None)
    return chance.choice(odd)


def _odd_of(kind: str) -> tuple[Any, ...]:
    if kind == "string":
        return _TEXTS
    if kind in {"int16", "int32", "int64"}:
        return _NUMBERS if kind == "int16" else (*_NUMBERS, *_LARGE)
    if kind == "int8":
        return (-1, 0, 1, 2, 5, 100)
    if kind == "bool":
        return (True, False)
    if kind == "uuid":
        return (bytes(16), b"\1" * 16)
    return _BYTES


def _replaced(value: Any, owner: Struct, name: str, new: Any) -> Any:
    if isinstance(value, list):
        return [_replaced(each, owner, name, new) for each in value]
    if not isinstance(value, Struct):
        return value
    fields = {
        each: new
        if value is owner and each == name
        else _replaced(getattr(value, each), owner, name, new)
        for each in value.FIELDS
    }
    return type(value)(**fields)
