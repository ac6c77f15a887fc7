"""The assignors that a server supports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from coterie.broker.coordinator.assignors import rack, uniform
from coterie.broker.coordinator.assignors import range as range_assignor
from coterie.broker.coordinator.assignors.registry import ENTRY_POINTS, configured
from coterie.errors import SettingError
from coterie.settings import Settings

JAVA = "org.apache.kafka.coordinator.group.assignor."


def entry_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINTS)


def never() -> Iterator[EntryPoint]:
    yield pytest.fail("nobody has to look for what is built in")


@pytest.mark.fact("E12-07", "I-09")
def test_uniform_is_the_default_unless_configured() -> None:
    offered = configured(Settings().group_consumer_assignors, never())
    assert [*offered] == ["uniform", "range"]
    assert offered["uniform"] is uniform.assign
    assert [*configured(["rack", "range"])] == ["rack", "range"]
    assert configured(["rack"])["rack"] is rack.assign


@pytest.mark.fact("E12-08")
def test_assignors_are_found_by_kafkas_class_names() -> None:
    offered = configured([f"{JAVA}RangeAssignor", f"{JAVA}UniformAssignor"], never())
    assert [*offered] == ["range", "uniform"]
    assert offered["range"] is range_assignor.assign


@pytest.mark.fact("E12-08a")
@pytest.mark.parametrize("twice", ["uniform", f"{JAVA}UniformAssignor"])
def test_a_duplicate_assignor_name_is_refused(twice: str) -> None:
    with pytest.raises(SettingError, match=r"group\.consumer\.assignors .*twice"):
        configured(["range", "uniform", twice])


@pytest.mark.fact("E11-07")
def test_an_entry_point_is_registered_under_its_name() -> None:
    ours = entry_point("ours", "coterie.broker.coordinator.assignors.rack:assign")
    broken = entry_point("broken", "coterie.there_is_no_such_module:assign")
    offered = configured(["ours", "uniform"], [broken, ours])
    assert [*offered] == ["ours", "uniform"]
    assert offered["ours"] is rack.assign


@pytest.mark.fact("E11-07")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("coterie.there_is_no_such_module:assign", "cannot be loaded"),
        ("coterie.broker.coordinator.assignors.rack:COHORTS_MAX", "not a function"),
    ],
)
def test_an_entry_point_that_is_not_an_assignor_is_refused(
    value: str, why: str
) -> None:
    with pytest.raises(SettingError, match=why):
        configured(["ours"], [entry_point("ours", value)])


def test_the_name_of_a_built_in_assignor_is_reserved() -> None:
    other = entry_point("range", "coterie.broker.coordinator.assignors.rack:assign")
    assert configured(["range"], [other])["range"] is range_assignor.assign


def test_an_unknown_assignor_is_refused_with_the_known_names() -> None:
    ours = entry_point("ours", "coterie.broker.coordinator.assignors.rack:assign")
    with pytest.raises(SettingError, match="known are uniform, range, rack, ours"):
        configured(["nobody's"], [ours])
    with pytest.raises(SettingError, match="at least one"):
        configured([])
