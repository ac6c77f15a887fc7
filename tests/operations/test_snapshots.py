from pathlib import Path

import pytest

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.plan import Action, OffsetEntry
from coterie.operations.snapshots import (
    GroupBefore,
    SnapshotHead,
    SnapshotWriter,
    list_snapshots,
    read_snapshot,
)
from tests.operations.world import A0, A1


def before(group_id: str) -> GroupBefore:
    return GroupBefore(
        group_id,
        Action.RESET,
        existed=True,
        offsets=(OffsetEntry("a", 0, 5, 1, "m"),),
        wrote=(OffsetEntry("a", 0, 2, 1, "m"), OffsetEntry("a", 1, None)),
    )


def head(name: str, taken_at: str = "2026-11-21T10:00:00.000Z") -> SnapshotHead:
    return SnapshotHead(name, taken_at, "c1", "coterie groups reset g", "p1")


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "new" / "deep", head("s1"))
    writer.keep([before("g"), before("h")])
    writer.keep([before("i")])
    found = read_snapshot(tmp_path / "new" / "deep", "s1")
    assert found.head == head("s1")
    assert [each.group_id for each in found.groups] == ["g", "h", "i"]
    assert found.groups[0].before == {A0: CommittedOffset(5, 1, "m")}
    assert found.groups[0].written == {A0: CommittedOffset(2, 1, "m"), A1: None}


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "new", head("s1"))
    writer.keep([before("g")])
    assert writer.path.stat().st_mode & 0o777 == 0o600
    assert writer.path.parent.stat().st_mode & 0o777 == 0o700


def test_nothing_to_keep_makes_no_file(tmp_path: Path) -> None:
    SnapshotWriter(tmp_path / "new", head("s1")).keep([])
    assert list(tmp_path.iterdir()) == []
    assert list(list_snapshots(tmp_path / "new")) == []


def test_the_newest_is_listed_first(tmp_path: Path) -> None:
    for name, at in [("b", "2026-01-01"), ("a", "2026-01-02"), ("c", "2026-01-02")]:
        SnapshotWriter(tmp_path, head(name, at)).keep([before("g")])
    assert [each.head.snapshot_id for each in list_snapshots(tmp_path)] == [
        "c",
        "a",
        "b",
    ]


def test_a_line_that_a_crash_cut_short_is_passed_over(tmp_path: Path) -> None:
    """Its write never began: the line is on the disk before."""
    writer = SnapshotWriter(tmp_path, head("s1"))
    writer.keep([before("g")])
    writer.keep([before("h")])
    writer.path.write_bytes(writer.path.read_bytes()[:-3])
    assert [each.group_id for each in read_snapshot(tmp_path, "s1").groups] == ["g"]


def test_a_snapshot_is_never_overwritten(tmp_path: Path) -> None:
    SnapshotWriter(tmp_path, head("s1")).keep([before("g")])
    with pytest.raises(SettingError, match="File exists; nothing is written"):
        SnapshotWriter(tmp_path, head("s1")).keep([before("h")])


@pytest.mark.parametrize("name", ["s2", "../s1", "deep/s1"])
def test_a_snapshot_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=r"no snapshot|no id"):
        read_snapshot(tmp_path, name)


@pytest.mark.parametrize("data", [b"", b"{}\n", b'{"schema":"coterie.plan"}\n'])
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s1.jsonl").write_bytes(data)
    with pytest.raises(SettingError, match=r"s1.jsonl: "):
        read_snapshot(tmp_path, "s1")


def test_a_broken_line_is_refused(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path, head("s1"))
    writer.keep([before("g")])
    writer.path.write_bytes(writer.path.read_bytes() + b"{}\n")
    with pytest.raises(SettingError, match="not a group"):
        read_snapshot(tmp_path, "s1")
