"""Which assignors a server offers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from coterie.coordinator.assignors import rack, uniform
from coterie.coordinator.assignors import range as range_assignor
from coterie.coordinator.assignors.registry import ENTRY_POINTS, configured
from coterie.errors import SettingError
from coterie.settings import Settings

JAVA = "org.apache.kafka.coordinator.group.assignor."


def entry_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINTS)


def never() -> Iterator[EntryPoint]:
    yield pytest.fail("nobody has to look for what is built in")


@pytest.mark.fact("E12-07", "I-09")
def test_uniform_comes_first_unless_somebody_says_so() -> None:
    offered = configured(Settings().group_consumer_assignors, never())
    assert [*offered] == ["uniform", "range"]
    assert offered["uniform"] is uniform.assign
    assert [*configured(["rack", "range"])] == ["rack", "range"]
    assert configured(["rack"])["rack"] is rack.assign


@pytest.mark.fact("E12-08")
def test_the_names_of_kafkas_classes_are_known() -> None:
    offered = configured([f"{JAVA}RangeAssignor", f"{JAVA}UniformAssignor"], never())
    assert [*offered] == ["range", "uniform"]
    assert offered["range"] is range_assignor.assign


@pytest.mark.fact("E12-08")
@pytest.mark.parametrize("twice", ["uniform", f"{JAVA}UniformAssignor"])
def test_an_assignor_that_comes_twice_is_refused(twice: str) -> None:
    with pytest.raises(SettingError, match=r"group\.consumer\.assignors .*twice"):
        configured(["range", "uniform", twice])


@pytest.mark.fact("E11-07")
def test_an_entry_point_is_offered_by_its_name() -> None:
    ours = entry_point("ours", "coterie.coordinator.assignors.rack:assign")
    broken = entry_point("broken", "coterie.there_is_no_such_module:assign")
    offered = configured(["ours", "uniform"], [broken, ours])
    assert [*offered] == ["ours", "uniform"]
    assert offered["ours"] is rack.assign


@pytest.mark.fact("E11-07")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("coterie.there_is_no_such_module:assign", "cannot be loaded"),
        ("coterie.coordinator.assignors.rack:PARTIES_MAX", "no function"),
    ],
)
def test_an_entry_point_that_is_no_assignor_is_refused(value: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        configured(["ours"], [entry_point("ours", value)])


def test_a_built_in_name_cannot_be_taken() -> None:
    other = entry_point("range", "coterie.coordinator.assignors.rack:assign")
    assert configured(["range"], [other])["range"] is range_assignor.assign


def test_what_is_unknown_is_refused_with_what_there_is() -> None:
    ours = entry_point("ours", "coterie.coordinator.assignors.rack:assign")
    with pytest.raises(SettingError, match="there are uniform, range, rack, ours"):
        configured(["nobody's"], [ours])
    with pytest.raises(SettingError, match="at least one"):
        configured([])
