"""A sequence: steps that can be played on any server, any number of times.

A request of a step contains `Ref` values where servers choose the value: member ids,
epochs, topic ids, producer ids. `Bindings` keeps what one server has chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.wire.api import ApiKey
from coterie.wire.schema import Message, Struct

GROUP: Final = "%"
"""The prefix of names of groups and transactional ids, and of topics that a sequence
creates; replaced by the name of the play."""


class Ref(NamedTuple):
    """A value that the server has given to an actor or topic: `member`, `epoch`,
    `assigned`, `topic`, `producer`, `producer_epoch`. `delta` is added to numbers."""

    what: str
    of: str
    delta: int = 0

    def __repr__(self) -> str:
        delta = f"{self.delta:+}" if self.delta else ""
        return f"<{self.what} of {self.of}{delta}>"


def ref(what: str, of: str, delta: int = 0) -> Any:
    """Return a reference; its type is Any, as it takes the place of a value."""
    return Ref(what, of, delta)


_UNBOUND: Final[dict[str, Any]] = {
    "member": "",
    "epoch": 0,
    "assigned": [],
    "topic": bytes(16),
    "producer": -1,
    "producer_epoch": -1,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A request of an actor; `settle_ms` is the time that background work needs, `user`
    the principal of the actor's connection."""

    actor: str
    request: Any
    version: int
    settle_ms: int = 0
    user: str = "admin"

    @property
    def api(self) -> ApiKey:
        """The API of the request."""
        return ApiKey(self.request.API_KEY)

    def __str__(self) -> str:
        actor = self.actor if self.user == "admin" else f"{self.actor} as {self.user}"
        return f"{actor}: v{self.version} {shown(self.request, self.version)}"


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause of both servers' clients, for timers."""

    wait_ms: int

    def __str__(self) -> str:
        return f"wait {self.wait_ms} ms"


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of both servers."""

    def __str__(self) -> str:
        return "restart both servers"


Action = Step | Wait | Restart


@dataclass(slots=True)
class Bindings:
    """The values that one server has chosen in one play, and their canonical names."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    names: dict[str | bytes | int, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def bind(self, what: str, of: str, value: Any) -> None:
        """Keep a value, with a canonical name for ids."""
        self.values[what, of] = value
        if what in {"member", "topic", "producer"} and value not in self.names:
            self._counts[of] += 1
            self.names[value] = f"<{what} {of}.{self._counts[of]}>"

    def resolve(self, ref: Ref) -> Any:
        """Return the value of a reference."""
        value = self.values.get((ref.what, ref.of), _UNBOUND[ref.what])
        return value + ref.delta if ref.delta else value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a message, struct, list or value with changed leaves."""
    if isinstance(value, Struct):
        fields = {name: mapped(getattr(value, name), change) for name in value.FIELDS}
        return type(value)(**fields)
    if isinstance(value, list):
        return [mapped(each, change) for each in value]
    return change(value)


def resolved(request: Message, bindings: Bindings, play: str) -> Any:
    """Return the request for one server."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return mapped(bindings.resolve(leaf), lambda each: each)
        if isinstance(leaf, str) and leaf.startswith(GROUP):
            return play + leaf[len(GROUP) :]
        return leaf

    return mapped(request, change)


def shown(value: Any, version: int) -> str:
    """Return a message as text, without fields that have their defaults."""
    if isinstance(value, list):
        return f"[{', '.join(shown(each, version) for each in value)}]"
    if not isinstance(value, Struct):
        return repr(value)
    default = type(value)()
    fields = ", ".join(
        f"{name}={shown(getattr(value, name), version)}"
        for name, declared in value.FIELDS.items()
        if version in declared.versions
        if getattr(value, name) != getattr(default, name)
    )
    return f"{type(value).__name__.removesuffix('Request')}({fields})"
