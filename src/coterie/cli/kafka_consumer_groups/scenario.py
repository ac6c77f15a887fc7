"""Where a command line wants groups to read next: its scenario, or one from a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.errors import SettingError
from coterie.operations.offset_csv import read_csv
from coterie.operations.reset import (
    Scenario,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToRows,
    by_duration,
    to_datetime,
)
from coterie.types import GroupId


def read_scenario(line: CommandLine) -> Scenario | Mapping[GroupId, ToRows]:
    """Where to; from a file, for each group. Raises SettingError."""
    if (path := line.one("from-file")) is not None:
        return _from_file(Path(path), line)
    if (offset := line.number("to-offset")) is not None:
        return ToOffset(offset)
    if (records := line.number("shift-by")) is not None:
        return ShiftBy(records)
    if (at := line.one("to-datetime")) is not None:
        return to_datetime(at)
    if (duration := line.one("by-duration")) is not None:
        return by_duration(duration, time.time_ns() // 1_000_000)
    if line.has("to-earliest"):
        return ToEarliest()
    return ToLatest() if line.has("to-latest") else ToCurrent()


def _from_file(path: Path, line: CommandLine) -> Mapping[GroupId, ToRows]:
    groups = line.all("group")
    only_group = groups[0] if len(groups) == 1 else None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SettingError(f"Unable to read file {path}: {error}") from error
    plan = read_csv(text, only_group)
    return {group_id: ToRows(offsets) for group_id, offsets in plan.items()}
