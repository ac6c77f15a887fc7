"""`coterie pipeline versions`, and --as-of of the commands that read a lake."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coterie.pipeline.lake.lake import Lake
from tests.cli.pipeline.conftest import LakeShell
from tests.pipeline.lakes import commit_rows, make_lake


@pytest.fixture
def lake(tmp_path: Path, shell: LakeShell) -> Lake:
    """Make a lake with 3 groups in version 1, 2 in version 2 and 1 in version 3."""
    groups = [{"group_id": name} for name in ("audit", "billing", "carts")]
    shell.lake = make_lake(tmp_path / "lake", {"current_groups": groups})
    lake = Lake.open_to_write(shell.lake)
    for count in (2, 1):
        rows = lake.read("current_groups")
        commit_rows(lake, {"current_groups": rows.slice(0, count)})
    return lake


@pytest.mark.slow
def test_versions_are_listed_newest_first(lake: Lake, shell: LakeShell) -> None:
    newest, second, first = shell.items("versions")
    assert [each["version"] for each in (newest, second, first)] == [3, 2, 1]
    assert newest["changed"] == second["changed"] == ["current_groups"]
    assert first["changed"] is None, "nothing to compare it with"
    delta_version = lake.version.of("current_groups").delta
    assert newest["delta_versions"]["current_groups"] == delta_version
    assert newest["committed_ts"] > second["committed_ts"]
    assert "lake version 3" in shell.error
    [only] = shell.items("versions --limit 1")
    assert only == newest
    assert "current_groups" in shell("versions")


@pytest.mark.slow
def test_an_earlier_version_is_read(lake: Lake, shell: LakeShell) -> None:
    for version, count in (("1", 3), ("2", 2), ("3", 1), ("0s", 1)):
        option = f"--as-of {version}"
        assert len(shell.items(f"show current {option}")) == count
        document = json.loads(
            shell(f"sql -o json {option}", "SELECT group_id FROM current_groups")
        )
        assert len(document["items"]) == count
        assert document["lake_version"] == 4 - count


@pytest.mark.slow
@pytest.mark.parametrize("version", ["9", "2000-01-01T00:00:00Z", "7d"])
def test_a_version_that_does_not_exist_is_an_error(
    version: str, lake: Lake, shell: LakeShell
) -> None:
    assert lake.version.number == 3
    shell(f"show current --as-of {version}")
    assert shell.code == 1
    assert "has no version" in shell.error


@pytest.mark.slow
def test_the_report_is_of_an_earlier_version(
    lake: Lake, shell: LakeShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the libraries of the charts, which take seconds to import.
    page = SimpleNamespace(render=lambda lake, _: f"version {lake.version.number}")
    monkeypatch.setitem(sys.modules, "coterie.pipeline.report.page", page)
    report = tmp_path / "report.html"
    shell("report --as-of 1 --to", str(report))
    assert (report.read_text(), lake.version.number) == ("version 1", 3)
