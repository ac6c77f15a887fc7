"""What gold tables depend on besides the log: settings, and facts of the lake."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from coterie.pipeline.gold.verdict import Rules

DAY_MS: Final = 24 * 60 * 60 * 1000


class LogHead(NamedTuple):
    """How far a log partition was read, and how far it goes."""

    log_partition: int
    next_offset: int
    """The offset to go on from."""
    start_offset: int
    """The first offset that was there at the last look."""
    stable_offset: int
    """Where the first open transaction begins; else the end."""
    end_offset: int


@dataclass(frozen=True, kw_only=True)
class GoldSettings:
    """Times in ms. No clock: `as_of_ts` is the lake's own now."""

    as_of_ts: datetime | None = None
    """The newest `append_ts` that was read, with its time zone; None before any."""
    heads: tuple[LogHead, ...] = ()
    """Of each log partition, in order."""
    retention_ms: int = 7 * DAY_MS
    """offsets.retention.minutes of the cluster."""
    storm_epochs: int = 5
    """So many epochs of a group within the window are a storm."""
    storm_window_ms: int = 10 * 60 * 1000
    storm_quiet_ms: int = 10 * 60 * 1000
    """A storm is over after so long without a new epoch."""
    burrow: Rules = field(default_factory=Rules)
    """How groups are judged."""
    guard_ms: int = DAY_MS
    """A group that did anything since then is never proposed for deletion."""
    simple_guard_ms: int = 7 * DAY_MS
    """The same for groups without members, whose clients may live unseen (K-07)."""
    gap_factor: float = 1.5
    """A group is stale when it has been idle for so many times its longest pause."""
    assumed_gap_ms: int = 7 * DAY_MS
    """The pause that a group is taken to make whose beginning the log does not have."""
    soon_ms: int = DAY_MS
    """Offsets that go by themselves within this time expire soon."""
    keep: tuple[str, ...] = ()
    """Groups that are never proposed: names, in which * and ? stand for others."""
    test_names: str = (
        "(?i)(^|[._-])(test|tmp|temp|dev|debug|demo|scratch|console-consumer)([._-]|$)"
    )
    """Names of groups that were made to try things on."""
