"""A generated week of groups: the input tables of lag, verdicts, expiry and staleness,
written from the truth and from shards that loaded the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.sources.partition_ends import read_samples
from coterie.pipeline.tables.all_tables import TABLES
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from tests.broker.coordinator.shard_driver import ShardDriver
from tests.pipeline.gold.expiry_truth import loaded
from tests.pipeline.gold.generated_silver import timestamp
from tests.pipeline.gold.lag_truth import Truth, truth_of
from tests.pipeline.gold.memory_lake import Tables
from tests.pipeline.gold.rows import arrow
from tests.pipeline.gold.shard_tables import Rows, all_tables_of
from tests.testing.log_generator.generated_log import read_truth as lines_of

AS_OF_MS: Final = 1_767_225_600_000 + int(4.4 * 24 * 3_600_000)
"""A time in the second pause of the group that works every few days."""


class Week:
    """A generated log and its tables."""

    def __init__(self, folder: Path) -> None:
        generate(
            GeneratorOptions(
                folder=folder, groups=18, commits=700, days=6, partitions=2, seed=1
            )
        )
        self.folder = folder
        self._log_partitions = {
            each["group_id"]: each["log_partition"]
            for each in lines_of(folder, "groups")
        }
        self.truth: Truth = truth_of(folder, AS_OF_MS)
        self.settings = GoldSettings(as_of_ts=timestamp(AS_OF_MS))
        self.rows: Rows = {
            "offset_commit_history": [*_commits(folder), *_deletions(folder)],
            "partition_ownership_history": [*_ownership(folder)],
            "member_sessions": [*_sessions(folder)],
        }
        for driver in self.drivers():
            for name, found in all_tables_of(driver.state).items():
                self.rows.setdefault(name, []).extend(found)

        self._add_group_times()

    def _add_group_times(self) -> None:
        """Add log partitions and times of the last changes, which shards do not
        store."""
        history, groups = (
            self.rows["offset_commit_history"],
            self.rows["current_groups"],
        )
        commits = [each for each in history if "committed_offset" in each]
        self.rows["data_quality"] = [
            {
                "log_partition": number,
                "history_from_ts": min(
                    each["append_ts"]
                    for each in commits
                    if each["log_partition"] == number
                ),
            }
            for number in sorted({each["log_partition"] for each in commits})
        ]
        last: dict[str, Any] = {}
        changed: dict[str, Any] = {}
        for each in commits:
            group_id, at = each["group_id"], each["append_ts"]
            last[group_id] = max(at, last.get(group_id, at))
        for each in self.rows["member_sessions"]:
            for at in (each["joined_ts"], each["left_ts"]):
                if at is not None and at <= timestamp(AS_OF_MS):
                    group_id = each["group_id"]
                    changed[group_id] = max(at, changed.get(group_id, at))
        for row in groups:
            row["last_commit_ts"] = last.get(row["group_id"])
            row["last_state_change_ts"] = changed.get(row["group_id"])
            row["log_partition"] = self._log_partitions[row["group_id"]]

    def drivers(self) -> list[ShardDriver]:
        """Return shards that loaded the log."""
        drivers = loaded(self.folder, {0: 2**62, 1: 2**62}, AS_OF_MS)
        for driver in drivers:
            driver.now_ms = AS_OF_MS
        return drivers

    def scenarios(self) -> dict[str, str]:
        """Return the scenario of each group."""
        return {
            each["group_id"]: each["scenario"]
            for each in lines_of(self.folder, "groups")
        }

    def tables(self) -> Tables:
        """Return the tables in memory; those without a row are missing."""
        samples = read_samples(self.folder / "truth" / "ends.jsonl")
        rows = {name: arrow(TABLES[name], each) for name, each in self.rows.items()}
        return rows | {"partition_end_samples": pa.concat_tables(samples)}


def _commits(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            **_place(each),
            "log_partition": each["log_partition"],
            "log_offset": each["log_offset"],
            "committed_offset": each["offset"],
            "commit_ts": timestamp(each["commit_ms"]),
            "append_ts": timestamp(each["commit_ms"]),
            "actor": each["actor"],
        }
        for each in lines_of(folder, "commits")
        if each["outcome"] in {"plain", "committed"} and each["commit_ms"] <= AS_OF_MS
    ]


def _deletions(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            **_place(each),
            "log_partition": each["log_partition"],
            "log_offset": each["log_offset"],
            "append_ts": timestamp(each["at_ms"]),
        }
        for each in lines_of(folder, "deletions")
        if each["topic"] is not None and each["at_ms"] <= AS_OF_MS
    ]


def _ownership(folder: Path) -> list[dict[str, Any]]:
    """Return ownership rows, with times in place of log offsets."""
    return [
        {
            **_place(each),
            "topic_id": each["topic_id"],
            "member_id": each["member_id"],
            "valid_from": timestamp(each["from_ms"]),
            "from_log_offset": each["from_ms"],
            "valid_to": _time(each["to_ms"]),
            "to_log_offset": each["to_ms"],
        }
        for each in lines_of(folder, "ownership")
    ]


def _sessions(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            "group_id": each["group_id"],
            "member_id": each["member_id"],
            "joined_ts": timestamp(each["joined_ms"]),
            "left_ts": _time(each["left_ms"]),
        }
        for each in lines_of(folder, "sessions")
        if each["joined_ms"] <= AS_OF_MS
    ]


def _place(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("group_id", "topic", "partition")}


def _time(at_ms: int | None) -> Any:
    return None if at_ms is None else timestamp(at_ms)
