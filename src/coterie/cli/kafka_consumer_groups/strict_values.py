"""Times, durations, partitions and files as kafka-consumer-groups.sh reads them.

With --strict a reset accepts what Apache's tool accepts and fails with its messages.
Texts that it misreads without an error are refused with the message for other
invalid texts; docs/kafka-consumer-groups.md lists them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coterie.cli.kafka_consumer_groups.command_line import (
    ActionFailed,
    CommandLine,
    named_topics,
)
from coterie.cli.kafka_consumer_groups.java import EXECUTION_EXCEPTION
from coterie.errors import SettingError
from coterie.operations.offset_files import read_csv
from coterie.operations.resets import ToRows, ToTime, by_duration, to_datetime
from coterie.operations.times import read_iso_duration_ns
from coterie.types import GroupId

_PARSE_EXCEPTION: Final = "java.text.ParseException: "
_NO_T: Final = (
    "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
)
# SimpleDateFormat needs the milliseconds.
_WITH_MILLISECONDS: Final = re.compile(r"[^T]*T[0-9]+:[0-9]+:[0-9]+\.[0-9]{3}\D*.*")
_BEFORE_1970: Final = (
    "org.apache.kafka.common.errors.UnsupportedVersionException: The version of API is "
    "not supported."
)
_NO_CONTENT: Final = (
    "com.fasterxml.jackson.databind.exc.MismatchedInputException: No content to map "
    "due to end-of-input\n at [Source: (StringReader); line: UNKNOWN, column: UNKNOWN]"
)
_INSTANT_MIN_S: Final = -31_557_014_167_219_200
"""Instant.MIN in seconds."""


def strict_datetime(text: str) -> ToTime:
    """Return the scenario of `--to-datetime`. Raises ActionFailed."""
    _, *rest = text.split("T")
    if not rest or not rest[0]:
        raise ActionFailed(_PARSE_EXCEPTION + _NO_T)
    zoned = text if re.search(r"[-+Z]", rest[0]) else f"{text}Z"
    unparseable = f'{_PARSE_EXCEPTION}Unparseable date: "{zoned}"'
    if not _WITH_MILLISECONDS.fullmatch(text):
        raise ActionFailed(unparseable)
    try:
        scenario = to_datetime(text)
    except SettingError as failure:
        raise ActionFailed(unparseable) from failure
    return _since_1970(scenario)


def strict_duration(text: str, now_ms: int) -> ToTime:
    """Return the scenario of `--by-duration`. Raises ActionFailed."""
    try:
        read_iso_duration_ns(text)  # by_duration reads short ones such as 2h, too
        scenario = by_duration(text, now_ms)
    except SettingError as failure:
        raise ActionFailed("Text cannot be parsed to a Duration") from failure
    if scenario.timestamp_ms // 1000 < _INSTANT_MIN_S:
        raise ActionFailed("Instant exceeds minimum or maximum instant")
    return _since_1970(scenario)


def _since_1970(scenario: ToTime) -> ToTime:
    # Negative times are codes of ListOffsets.
    if scenario.timestamp_ms < 0:
        raise ActionFailed(EXECUTION_EXCEPTION + _BEFORE_1970)
    return scenario


def strict_file(path: str, line: CommandLine) -> Mapping[GroupId, ToRows]:
    """Return the scenario of `--from-file` for each group.

    Lines without a group belong to no group unless exactly one is named. Raises
    ActionFailed.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as failure:
        raise ActionFailed(
            f"java.io.IOException: Unable to read file {path}"
        ) from failure
    if not text:
        raise ActionFailed(_NO_CONTENT)
    groups = line.given.get("group", ())
    only_group = groups[0] if len(groups) == 1 else None
    if only_group is None:
        rows = [row for row in csv.reader(text.splitlines()) if row]
        # The third column is then read as a partition.
        if rows and all(len(row) == 3 and row[2].strip().isdigit() for row in rows):
            return {}
    try:
        plan = read_csv(text, only_group)
    except SettingError as failure:
        raise ActionFailed(str(failure)) from failure
    return {group_id: ToRows(offsets) for group_id, offsets in plan.items()}


def refuse_duplicates(line: CommandLine) -> None:
    """Refuse a partition that `--topic` names twice. Raises ActionFailed."""
    topics = named_topics(line)
    whole = {topic for topic, numbers in topics if numbers is None}
    seen = set()
    for topic, numbers in topics:
        for number in numbers or ():
            if topic in whole or (topic, number) in seen:
                raise ActionFailed(f"Duplicate key {topic}-{number}")
            seen.add((topic, number))
