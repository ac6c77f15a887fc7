"""Which assignors a server offers: names from settings to functions (E12).

The configured order is the order of precedence: its first is the default (E12-03) and
it settles ties (E12-04, which Apache Kafka leaves to a hash map's order). Anybody's
assignor can be offered: a package that is installed names its function, an `Assign`, as
an entry point of the group `coterie.assignors`, and the setting names the entry point
(E11-07). The built-in ones also go by the names of Kafka's classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from coterie.coordinator.assignors import rack, uniform
from coterie.coordinator.assignors import range as range_assignor
from coterie.coordinator.assignors.spec import Assign
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
    """An entry point as `importlib.metadata` has it."""

    @property
    def name(self) -> str:
        """What the setting calls it."""

    def load(self) -> Any:
        """The assignor itself; importing it may raise anything."""


def configured(
    names: Iterable[str], entry_points: Iterable[EntryPoint] = ()
) -> Mapping[str, Assign]:
    """The assignors of `group.consumer.assignors`, in its order.

    `entry_points` is looked at when a name is not built in, and only those that are
    named are loaded. A name that is built in cannot be taken by an entry point.

    Raises:
        SettingError: An assignor is unknown, cannot be loaded or comes twice (E12-08),
            or there is none.
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
            f"group.consumer.assignors: {name!r} is unknown; there are {known}"
        )
    try:
        assign: Assign = plugins[name].load()
    except Exception as error:
        raise SettingError(
            f"group.consumer.assignors: {name!r} cannot be loaded: {error!r}"
        ) from error
    if not callable(assign):
        raise SettingError(
            f"group.consumer.assignors: {name!r} is {assign!r}, which is no function"
        )
    return assign
