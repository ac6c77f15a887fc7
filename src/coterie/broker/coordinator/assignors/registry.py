"""The server-side assignors by their configured names.

The configured order is the precedence: the first one is the default and breaks
ties (where Apache Kafka depends on the order of a hash map). A package can
provide an assignor: it declares a function of type `Assign` as an entry point of the
group `coterie.assignors`, and the setting names the entry point. The built-in
ones also have the names of Kafka's classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from coterie.broker.coordinator.assignors import rack, uniform
from coterie.broker.coordinator.assignors import range as range_assignor
from coterie.broker.coordinator.assignors.spec import Assign
from coterie.errors import SettingError

ENTRY_POINTS: Final = "coterie.assignors"
BUILT_IN: Final[Mapping[str, Assign]] = MappingProxyType(
    {
        "uniform": uniform.assign,
        "range": range_assignor.assign,
        "rack": rack.assign,
    }
)
_JAVA: Final = "org.apache.kafka.coordinator.group.assignor."
_JAVA_NAMES: Final[Mapping[str, str]] = {
    f"{_JAVA}UniformAssignor": "uniform",
    f"{_JAVA}RangeAssignor": "range",
}


class EntryPoint(Protocol):
    """An entry point, as `importlib.metadata` provides it."""

    @property
    def name(self) -> str:
        """The name of the assignor in the setting."""

    def load(self) -> Any:
        """Return the assignor; the import may raise any exception."""


def configured(
    names: Iterable[str], entry_points: Iterable[EntryPoint] = ()
) -> Mapping[str, Assign]:
    """Return the assignors of `group.consumer.assignors`, in its order.

    `entry_points` is searched when a name is not built in, and only configured entry
    points are loaded. An entry point cannot replace a built-in name.

    Raises:
        SettingError: An assignor is unknown, cannot be loaded or is repeated,
        or the list is empty.
    """
    chosen: dict[str, Assign] = {}
    plugins: dict[str, EntryPoint] | None = None
    for given in names:
        name = _JAVA_NAMES.get(given, given)
        if name in chosen:
            raise SettingError(f"group.consumer.assignors names {name!r} twice")
        if name in BUILT_IN:
            chosen[name] = BUILT_IN[name]
            continue
        if plugins is None:
            plugins = {each.name: each for each in entry_points}
        chosen[name] = _load(name, plugins)
    if not chosen:
        raise SettingError("group.consumer.assignors must name at least one assignor")
    return MappingProxyType(chosen)


def _load(name: str, plugins: Mapping[str, EntryPoint]) -> Assign:
    if name not in plugins:
        known = ", ".join([*BUILT_IN, *sorted(plugins)])
        raise SettingError(
            f"group.consumer.assignors: {name!r} is unknown; known are {known}"
        )
    try:
        assign: Assign = plugins[name].load()
    except Exception as error:
        raise SettingError(
            f"group.consumer.assignors: {name!r} cannot be loaded: {error!r}"
        ) from error
    if not callable(assign):
        raise SettingError(
            f"group.consumer.assignors: {name!r} is {assign!r}, not a function"
        )
    return assign
