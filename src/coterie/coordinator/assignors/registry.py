"""Which assignors a server offers: names from settings to functions (E12).

The configured order is the order of precedence: its first is the default (E12-03) and
it settles ties (E12-04, which Apache Kafka leaves to a hash map's order).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from coterie.coordinator.assignors import range as range_assignor
from coterie.coordinator.assignors import uniform
from coterie.coordinator.assignors.spec import Assign
from coterie.errors import SettingError

BUILT_IN: Final[Mapping[str, Assign]] = MappingProxyType(
    {"uniform": uniform.assign, "range": range_assignor.assign}
)


def configured(names: Iterable[str]) -> Mapping[str, Assign]:
    """The assignors of `group.consumer.assignors`, in its order.

    Raises:
        SettingError: A name is unknown or comes twice (E12-08), or there is none.
    """
    chosen: dict[str, Assign] = {}
    for name in names:
        if name in chosen:
            raise SettingError(f"group.consumer.assignors names {name!r} twice")
        if name not in BUILT_IN:
            known = ", ".join(BUILT_IN)
            raise SettingError(
                f"group.consumer.assignors: {name!r} is unknown; there are {known}"
            )
        chosen[name] = BUILT_IN[name]
    if not chosen:
        raise SettingError("group.consumer.assignors must name at least one assignor")
    return MappingProxyType(chosen)
