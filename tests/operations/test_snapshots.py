from pathlib import Path

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.plan_files import Action, OffsetEntry
from coterie.operations.snapshots import (
    SnapshotGroup,
    SnapshotHead,
    SnapshotWriter,
    list_snapshots,
    read_snapshot,
)
from tests.operations.small_cluster import A0, A1


def before(group_id: str) -> SnapshotGroup:
    return SnapshotGroup(
        group_id,
        Action.RESET,
        existed=True,
        offsets=(OffsetEntry("a", 0, 5, 1, "m"),),
        wrote=(OffsetEntry("a", 0, 2, 1, "m"), OffsetEntry("a", 1, None)),
    )


def head(name: str, taken_at: str = "2026-11-21T10:00:00.000Z") -> SnapshotHead:
    return SnapshotHead(name, taken_at, "c1", "coterie groups reset g", "p1")


def test_a_written_snapshot_is_read(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "new" / "deep", head("s1"))
    writer.add([before("g"), before("h")])
    writer.add([before("i")])
    found = read_snapshot(tmp_path / "new" / "deep", "s1")
    assert found.head == head("s1")
    assert [each.group_id for each in found.groups] == ["g", "h", "i"]
    assert found.groups[0].offsets_before == {A0: CommittedOffset(5, 1, "m")}
    assert found.groups[0].offsets_written == {A0: CommittedOffset(2, 1, "m"), A1: None}


def test_only_the_owner_can_read_a_snapshot(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "new", head("s1"))
    writer.add([before("g")])
    assert writer.path.stat().st_mode & 0o777 == 0o600
    assert writer.path.parent.stat().st_mode & 0o777 == 0o700


def test_an_empty_snapshot_creates_no_file(tmp_path: Path) -> None:
    SnapshotWriter(tmp_path / "new", head("s1")).add([])
    assert list(tmp_path.iterdir()) == []
    assert list(list_snapshots(tmp_path / "new")) == []


@pytest.mark.slow
def test_a_snapshot_torn_at_any_byte_has_its_whole_lines(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path, head("s1"))
    for group_id in "gh":
        writer.add([before(group_id)])
    SnapshotWriter(tmp_path, head("s2")).add([before("g")])
    whole = writer.path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        writer.path.write_bytes(whole[:size])
        counts = {
            each.head.snapshot_id: len(each.groups) for each in list_snapshots(tmp_path)
        }
        whole_lines = sum(end <= size for end in ends)
        # Nothing is written to a group before the snapshot's head is on the disk.
        assert counts == {"s2": 1} | ({"s1": whole_lines - 1} if whole_lines else {})


def test_snapshots_are_listed_newest_first(tmp_path: Path) -> None:
    for name, at in [("b", "2026-01-01"), ("a", "2026-01-02"), ("c", "2026-01-02")]:
        SnapshotWriter(tmp_path, head(name, at)).add([before("g")])
    assert [each.head.snapshot_id for each in list_snapshots(tmp_path)] == [
        "c",
        "a",
        "b",
    ]


def test_a_truncated_last_line_is_ignored(tmp_path: Path) -> None:
    # The write of a truncated line never started: lines are synced before it.
    writer = SnapshotWriter(tmp_path, head("s1"))
    writer.add([before("g")])
    writer.add([before("h")])
    writer.path.write_bytes(writer.path.read_bytes()[:-3])
    assert [each.group_id for each in read_snapshot(tmp_path, "s1").groups] == ["g"]


def test_a_snapshot_is_never_overwritten(tmp_path: Path) -> None:
    SnapshotWriter(tmp_path, head("s1")).add([before("g")])
    with pytest.raises(SettingError, match="File exists; no group is changed"):
        SnapshotWriter(tmp_path, head("s1")).add([before("h")])


@pytest.mark.parametrize("name", ["s2", "../s1", "deep/s1"])
def test_a_missing_snapshot_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=r"no snapshot|not a snapshot id"):
        read_snapshot(tmp_path, name)


@pytest.mark.parametrize("data", [b"", b"{}\n", b'{"schema":"coterie.plan"}\n'])
def test_a_file_that_is_not_a_snapshot_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s1.jsonl").write_bytes(data)
    with pytest.raises(SettingError, match=r"s1.jsonl: "):
        read_snapshot(tmp_path, "s1")


def test_a_malformed_line_is_refused(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path, head("s1"))
    writer.add([before("g")])
    writer.path.write_bytes(writer.path.read_bytes() + b"{}\n")
    with pytest.raises(SettingError, match="not a group"):
        read_snapshot(tmp_path, "s1")
