"""Tests for types and states of groups, and for results of many items."""

from __future__ import annotations

import pytest

from coterie.client.admin.groups import GroupState, GroupType
from coterie.client.admin.results import Results
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode


@pytest.mark.fact("E29-04")
@pytest.mark.parametrize("text", ["Reconciling", "reconciling", "RECONCILING"])
def test_states_are_parsed_case_insensitively(text: str) -> None:
    assert GroupState.read(text) is GroupState.RECONCILING


@pytest.mark.fact("E29-04")
def test_assigning_and_unknown_states_are_parsed() -> None:
    assert GroupState.read("Assigning") is GroupState.ASSIGNING
    assert GroupState.read("Dreaming") is GroupState.UNKNOWN


@pytest.mark.fact("E29-05")
def test_types_are_parsed_case_insensitively_and_others_are_unknown() -> None:
    assert GroupType.read("CONSUMER") is GroupType.CONSUMER
    assert GroupType.read("Classic") is GroupType.CLASSIC
    assert GroupType.read("quantum") is GroupType.UNKNOWN


@pytest.mark.fact("E29-07")
def test_only_empty_and_dead_groups_are_inactive() -> None:
    inactive = {state for state in GroupState if not state.is_active}
    assert inactive == {GroupState.EMPTY, GroupState.DEAD}


def test_an_error_is_raised_only_for_its_own_item() -> None:
    gone = ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    results = Results({"a": 1}, {"b": gone})
    assert results.one("a") == 1
    with pytest.raises(ApiError):
        results.one("b")
    with pytest.raises(ApiError):
        results.all()
