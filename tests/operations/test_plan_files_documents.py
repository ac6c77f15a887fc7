"""The examples in docs/plan-files.md are valid documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.offset_files import read_offsets_file, write_offsets_file
from coterie.operations.plan_files import Action, ResultFile, decode_plan, utc_text
from coterie.operations.snapshots import read_snapshot
from coterie.types import TopicPartition
from tests.operations.small_cluster import A0, A1, NOW_MS

PAGE = Path(__file__).parents[2] / "docs" / "plan-files.md"
ORDERS = TopicPartition("orders", 0)
BEFORE = CommittedOffset(6, 0, "m")


def example(schema: str) -> bytes:
    """Return the example of a schema."""
    found = re.findall(r"```jsonl?\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    pattern = re.compile(rf'"schema": ?"{schema}"')
    return next(text for text in found if pattern.search(text)).encode()


def test_the_plan_example_of_the_docs_is_valid() -> None:
    plan = decode_plan(example("coterie.plan"))
    assert [item.action for item in plan.items] == [Action.DELETE_GROUP, Action.RESET]
    assert plan.items[1].wanted == {ORDERS: CommittedOffset(0, 0, "m")}


def test_the_results_example_of_the_docs_is_valid(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(example("coterie.plan-results"))
    results = ResultFile(tmp_path / "r", decode_plan(example("coterie.plan")))
    assert results.is_done("reset:billing")
    assert not results.is_done("delete-group:billing-test")


def test_the_snapshot_example_of_the_docs_is_valid(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(example("coterie.snapshot"))
    (group,) = read_snapshot(tmp_path, "s").groups
    assert group.offsets_before == {ORDERS: BEFORE}
    assert group.offsets_written == {ORDERS: CommittedOffset(0, 0, "m")}


def test_the_offsets_example_of_the_docs_is_valid() -> None:
    assert read_offsets_file(example("coterie.offsets")) == {
        "billing": {ORDERS: BEFORE}
    }


def test_offsets_are_read_as_they_were_written() -> None:
    offsets = {"g": {A0: BEFORE, A1: CommittedOffset(0)}, "none": {}}
    data = write_offsets_file(offsets, "now", None)
    assert read_offsets_file(data) == offsets


def test_two_offsets_for_one_partition_are_refused() -> None:
    line = '{"topic":"a","partition":0,"offset":5}'
    head = '{"schema":"coterie.offsets","schema_version":1,"exported_at":"",'
    for entries in (f"{line},{line}", '{"topic":"a","partition":0,"offset":null}'):
        groups = (
            f'"cluster_id":null,"groups":[{{"group_id":"g","offsets":[{entries}]}}]'
        )
        with pytest.raises(SettingError, match="group g: a-0 needs one offset"):
            read_offsets_file(f"{head}{groups}}}".encode())


def test_times_are_written_with_their_milliseconds() -> None:
    assert utc_text(NOW_MS + 7) == "2026-11-21T10:00:00.007Z"
    assert utc_text(-1) == "1969-12-31T23:59:59.999Z"
