"""Compare two responses field by field, after the values that may differ are mapped.

Member ids, topic ids and names of plays become canonical names; lists whose order means
nothing are sorted; epochs may differ by the one by which Kafka's first epoch is higher.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.schema import PRIVATE_TAG, Message, Struct
from tests.differential.steps import Bindings

_IGNORED: Final = {"throttle_time_ms", "port", "error_message", "documentation"}
"""What depends on the machine; messages are compared by `tests/interop`."""
_EPOCHS: Final = {"member_epoch", "group_epoch", "assignment_epoch", "generation_id"}
_ASSIGNMENTS: Final = {"assignment", "member_assignment"}
_IDENTITY: Final = (
    "group_id",
    "key",
    "name",
    "topic_name",
    "topic_id",
    "partition_index",
    "client_id",
    "member_id",
    "group_instance_id",
)
_UNKNOWN_ID: Final = re.compile(r"^(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Difference(NamedTuple):
    """A field whose values differ: path, Kafka's value and Coterie's."""

    path: str
    kafka: Any
    coterie: Any

    @property
    def kind(self) -> str:
        """The path without numbers: the same for all elements of a list."""
        return re.sub(r"\[\d+\]", "", self.path)


@dataclass(slots=True)
class Epochs:
    """The difference of the epochs of each group: Kafka's minus Coterie's.

    Kafka 4.3's first epoch of a consumer group is 2, Coterie's and later Kafka's is 1.
    """

    shifts: dict[str, int] = field(default_factory=dict)

    def are_equal(self, group: str, kafka: int, coterie: int) -> bool:
        """Return whether two epochs of a group correspond."""
        if kafka <= 0 or coterie <= 0:
            return kafka == coterie
        shift = kafka - coterie
        return shift in {0, 1} and self.shifts.setdefault(group, shift) == shift

    def forget(self, group: str) -> None:
        """Accept another shift: the group may begin again."""
        self.shifts.pop(group, None)


def canonical(value: Any, bindings: Bindings, play: str) -> Any:
    """Return a response as dicts, lists and leaves that servers have in common."""
    if isinstance(value, Struct):
        return {
            name: _field(name, getattr(value, name), bindings, play)
            for name, declared in value.FIELDS.items()
            if name not in _IGNORED
            if declared.tag is None or declared.tag < PRIVATE_TAG
        }
    if isinstance(value, list):
        each = [canonical(element, bindings, play) for element in value]
        each = [element for element in each if not _is_foreign(element, play)]
        return sorted(each, key=_sort_key)
    return _leaf(value, bindings)


def _field(name: str, value: Any, bindings: Bindings, play: str) -> Any:
    if name == "producer_id" and value >= 0:
        return bindings.names.get(value, "<producer ?>")
    if name == "topic_id" and any(value):
        return bindings.names.get(value, "<topic ?>")
    if name in _ASSIGNMENTS and isinstance(value, bytes):
        return _assigned(value)
    return canonical(value, bindings, play)


def _assigned(data: bytes) -> Any:
    """Return an embedded assignment with its topics in order: Kafka's order depends on
    their ids."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if version not in range(4):
        return data
    try:
        value, end = decode(m.ConsumerProtocolAssignment, version, data, 2)
    except MalformedFrame:
        return data
    topics = sorted((each.topic, each.partitions) for each in value.assigned_partitions)
    return [version, topics, value.user_data, data[end:]]


def _leaf(value: Any, bindings: Bindings) -> Any:
    if not isinstance(value, str | bytes):
        return value
    if value in bindings.names:
        return bindings.names[value]
    if isinstance(value, str) and (unknown := _UNKNOWN_ID.match(value)):
        return f"<member {unknown[1]}.?>"
    return value


def _is_foreign(element: Any, play: str) -> bool:
    """Return whether an element of ListGroups belongs to another play."""
    if not isinstance(element, Mapping) or "protocol_type" not in element:
        return False
    return "members" not in element and not str(element["group_id"]).startswith(play)


def _sort_key(element: Any) -> str:
    if isinstance(element, Mapping):
        return repr([element.get(name) for name in _IDENTITY])
    return f"{element:012d}" if isinstance(element, int) else repr(element)


def differences(
    kafka: Any, coterie: Any, epochs: Epochs, group: str, path: str = ""
) -> Iterator[Difference]:
    """Yield the fields that differ; below a different error code only this one."""
    if isinstance(kafka, Mapping) and isinstance(coterie, Mapping):
        group = kafka.get("group_id", group)
        if kafka.get("error_code") != coterie.get("error_code"):
            both = kafka.get("error_code"), coterie.get("error_code")
            yield Difference(f"{path}.error_code", *both)
            return
        for name in kafka:
            at = f"{path}.{name}"
            if name in _EPOCHS:
                if not epochs.are_equal(group, kafka[name], coterie[name]):
                    yield Difference(at, kafka[name], coterie[name])
            else:
                yield from differences(kafka[name], coterie[name], epochs, group, at)
    elif isinstance(kafka, list) and isinstance(coterie, list):
        if len(kafka) != len(coterie):
            yield Difference(path, kafka, coterie)
            return
        for number, pair in enumerate(zip(kafka, coterie, strict=True)):
            yield from differences(*pair, epochs, group, f"{path}[{number}]")
    elif kafka != coterie:
        yield Difference(path, kafka, coterie)


def group_of(request: Message) -> str:
    """Return the group of a request, or an empty string."""
    return getattr(request, "group_id", "") or ""
