import json
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import SettingError
from coterie.operations.plan_files import (
    Action,
    ExpectedGroup,
    ItemResult,
    MemberEntry,
    OffsetEntry,
    Plan,
    PlanItem,
    ResultFile,
    Verdict,
    decode_plan,
    encode_plan,
    read_plan,
)
from tests.operations.small_cluster import NOW_MS

SEEN = ExpectedGroup(
    *(True, "Empty", "consumer", 4, 4, None, ("m1",)),
    offsets=(OffsetEntry("orders", 0, 5, 1, "é"), OffsetEntry("orders", 1, None)),
)
ITEM = PlanItem("reset:g", Action.RESET, "g", SEEN, (OffsetEntry("orders", 0, 0),))
PLAN = Plan("p1", "2026-11-21T10:00:00.000Z", "c1", (ITEM,), "coterie groups plan")


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(encode_plan(PLAN)), **fields}).encode()


def test_a_plan_is_read_as_it_was_written() -> None:
    members = (MemberEntry("m1"), MemberEntry(instance_id="i1"))
    items = (ITEM, PlanItem("x", Action.REMOVE_MEMBERS, "h", SEEN, (), members))
    plan = Plan("p1", "now", None, items)
    assert decode_plan(encode_plan(plan)) == plan


def test_unknown_fields_are_ignored() -> None:
    assert decode_plan(changed(more="of it")) == PLAN


def test_optional_fields_may_be_left_out() -> None:
    item = {
        "item_id": "delete-group:g",
        "action": "delete-group",
        "group_id": "g",
        "seen": {"exists": True, "offsets": []},
    }
    (read,) = decode_plan(changed(items=[item])).items
    assert read.seen == ExpectedGroup(exists=True)
    assert read.action is Action.DELETE_GROUP


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a 'coterie.plan'"),
        (b"[]", "not a 'coterie.plan'"),
        (b"{}", "missing required field `schema`"),
        (changed(schema="coterie.snapshot"), "this is a 'coterie.snapshot'"),
        (changed(schema_version=2), "its schema version is 2"),
        (changed(schema_version=0), "its schema version is 0"),
        (changed(items=None), r"\$.items"),
        (changed(items=[{}]), r"\$.items\[0\]"),
        (changed(items=[json.loads(encode_plan(PLAN))["items"][0]] * 2), "two items"),
    ],
)
def test_the_error_of_an_invalid_document_contains_the_position(
    data: bytes, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        decode_plan(data)


@pytest.mark.parametrize(("field", "value"), [("offset", -1), ("partition", -1)])
def test_numbers_out_of_range_are_refused(field: str, value: int) -> None:
    document = json.loads(encode_plan(PLAN))
    document["items"][0]["offsets"][0][field] = value
    with pytest.raises(SettingError, match=field):
        decode_plan(json.dumps(document).encode())


def test_the_error_of_a_missing_file_contains_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"p.json: No such file"):
        read_plan(tmp_path / "p.json")
    (tmp_path / "p.json").write_bytes(b"{}")
    with pytest.raises(SettingError, match=r"p.json: not a"):
        read_plan(tmp_path / "p.json")


def test_the_last_result_of_an_item_is_used(tmp_path: Path) -> None:
    path = tmp_path / "r"
    results = ResultFile(path, PLAN)
    assert not results.is_done("reset:g")
    results.add(ItemResult(ITEM, Verdict.REFUSED, ("changed",)), NOW_MS, "s1")
    assert not ResultFile(path, PLAN).is_done("reset:g")
    results.add(ItemResult(ITEM, Verdict.DONE), NOW_MS, "s2")
    again = ResultFile(path, PLAN)
    assert again.is_done("reset:g")
    assert again.last["reset:g"].at == "2026-11-21T10:00:00.000Z"
    assert again.last["reset:g"].snapshot_id == "s2"


def test_a_truncated_last_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "r"
    ResultFile(path, PLAN).add(ItemResult(ITEM, Verdict.DONE), NOW_MS, "s")
    path.write_bytes(path.read_bytes()[:-5])
    assert not ResultFile(path, PLAN).is_done("reset:g")


@pytest.mark.slow
def test_results_torn_at_any_byte_are_continued(tmp_path: Path) -> None:
    path = tmp_path / "r"
    ResultFile(path, PLAN).add(ItemResult(ITEM, Verdict.DONE), NOW_MS, "s1")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        results = ResultFile(path, PLAN)
        assert not results.last, "the result of a torn line is unknown"
        results.add(ItemResult(ITEM, Verdict.ALREADY), NOW_MS, "s2")
        assert ResultFile(path, PLAN).last["reset:g"].verdict is Verdict.ALREADY
        lines = path.read_bytes().splitlines()
        assert len(lines) == 2
        assert lines[0] == whole.splitlines()[0]


def test_a_line_that_a_full_disk_cut_short_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "r"
    results = ResultFile(path, PLAN)
    results.add(ItemResult(ITEM, Verdict.FAILED), NOW_MS, "s1")
    path.write_bytes(path.read_bytes()[:-5])
    results.add(ItemResult(ITEM, Verdict.DONE), NOW_MS, "s2")
    assert ResultFile(path, PLAN).last["reset:g"].snapshot_id == "s2"


def test_results_before_a_torn_line_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "r"
    other = PlanItem("reset:h", Action.RESET, "h", SEEN)
    results = ResultFile(path, PLAN)
    for item in (ITEM, other):
        results.add(ItemResult(item, Verdict.DONE), NOW_MS, "s")
    path.write_bytes(path.read_bytes()[:-1])
    later = ResultFile(path, PLAN)
    later.add(ItemResult(other, Verdict.ALREADY), NOW_MS, "")
    verdicts = {key: line.verdict for key, line in ResultFile(path, PLAN).last.items()}
    assert verdicts == {"reset:g": Verdict.DONE, "reset:h": Verdict.ALREADY}


def test_a_file_of_another_kind_without_a_newline_is_left_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b'{"schema":"mine","schema_version":1}')
    with pytest.raises(SettingError, match="'mine'"):
        ResultFile(path, PLAN)
    assert path.read_bytes() == b'{"schema":"mine","schema_version":1}'


def test_the_results_of_another_plan_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r"
    ResultFile(path, PLAN).add(ItemResult(ITEM, Verdict.DONE), NOW_MS, "s")
    with pytest.raises(SettingError, match="the results of plan p1, not of p2"):
        ResultFile(path, Plan("p2", "now", "c1", ()))


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "nowhere" / "r", PLAN)
    with pytest.raises(SettingError, match="No such file"):
        results.begin()
