"""Plausible rows of a lake with any number of groups, most of them healthy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any, Final

from tests.pipeline.lakes import AS_OF, ago

Row = dict[str, Any]
_TEAMS: Final = ("billing", "search", "fraud", "ledger", "shipping", "mail", "audit")
_JOBS: Final = ("indexer", "exporter", "enricher", "projection", "notifier", "archiver")
_LONG: Final = (
    "платформа-данных-обработка-заказов",
    "注文処理サービス-東京リージョン-本番環境",
    "commande-évènement-agrégation-très-longue",
    "com.example.platform.streaming.aggregation.OrderLifecycleProjectionService",
)
_VERDICTS: Final = (
    ("ERR", "STOP", "no commit for longer than the window spans"),
    ("ERR", "LOSING_DATA", "records were deleted before they were read"),
    ("WARN", "WARN", "commits, but the lag never shrank"),
    ("ERR", "STALL", "behind, and every commit has the same offset"),
    ("WARN", "NO_OWNER", "there is lag, and no member owns the partition"),
    ("ERR", "REWIND", "committed a lower offset and has not caught up since"),
)
PARTITIONS: Final = 4


def many_groups(
    number: int, *, gone: int = 0, has_long_names: bool = False, samples: int = 24
) -> dict[str, list[Row]]:
    """Return the rows by table of groups that exist, and of further ones that are gone.

    One group in eight is in trouble, one in ten is stale, one in twelve had a storm.
    """
    names = [group_name(index, has_long_names) for index in range(number + gone)]
    tables: dict[str, list[Row]] = {}
    for index, name in enumerate(names):
        for table, rows in _one_group(index, name, index >= number, samples):
            tables.setdefault(table, []).extend(rows)
    tables["coordinator_load"] = _load(names)
    tables["data_quality"] = [
        {"log_partition": each, "records": 40 * number} for each in range(50)
    ]
    return tables


def group_name(index: int, is_long: bool = False) -> str:
    team, job = _TEAMS[index % 7], _JOBS[index // 7 % 6]
    if is_long:
        return f"{_LONG[index % 4]}-{team}-{job}-eu-central-1-{index:04}"
    return f"{team}-{job}-{index:03}"


def _one_group(
    index: int, name: str, is_gone: bool, samples: int
) -> Iterator[tuple[str, list[Row]]]:
    random = Random(index)
    topic = f"{name.rsplit('-', 1)[0]}.events.v{1 + index % 3}"
    trouble = _VERDICTS[index // 8 % 6] if index % 8 == 3 else None
    is_stale = index % 10 == 5 and trouble is None
    members = 0 if is_stale or (trouble and trouble[1] == "NO_OWNER") else 3
    if not is_gone:
        yield "current_groups", [_group(name, index, members, is_stale)]
        yield (
            "current_offsets",
            [
                {
                    "group_id": name,
                    "topic": topic,
                    "partition": each,
                    "committed_offset": each,
                    "log_partition": 7,
                }
                for each in range(PARTITIONS)
            ],
        )
        yield "expiry_forecast", _expiry(name, topic, index, is_stale)
    yield "lag_history", _lags(name, topic, random, trouble, is_gone, samples)
    yield "group_status", _status(name, topic, trouble, is_gone)
    yield "rebalance_timeline", _rebalances(name, index, random)
    yield "partition_ownership_history", _ownership(name, topic, index, random)
    yield "group_usage_daily", _usage(name, topic, random)
    if is_stale:
        yield "stale_group_candidates", [_stale(name, index)]


def _group(name: str, index: int, members: int, is_stale: bool) -> Row:
    return {
        "group_id": name,
        "group_type": "consumer" if index % 3 else "classic",
        "state": "Stable" if members else "Empty",
        "member_count": members,
        "last_commit_ts": ago(days=6) if is_stale else ago(seconds=3 + index % 50),
        "empty_since_ts": None if members else ago(days=6),
        "log_partition": index % 50,
    }


def _lags(
    name: str, topic: str, random: Random, trouble: Any, is_gone: bool, samples: int
) -> list[Row]:
    rows = []
    slope, first = random.randrange(40, 1_800), random.randrange(2_000, 40_000)
    for part in range(PARTITIONS):
        end = 1_000_000 + random.randrange(9_000_000)
        rate = random.randrange(200, 4_000)
        for at in range(samples):
            age = samples - 1 - at
            lag = slope * at + first if trouble else random.randrange(0, 60)
            log_end = end + rate * at
            rows.append(
                {
                    "group_id": name,
                    "topic": topic,
                    "partition": part,
                    # Each partition is sampled at a slightly different time.
                    "sample_ts": ago(minutes=5 * age, milliseconds=7 * part)
                    - timedelta(days=19 if is_gone else 0),
                    "committed_offset": log_end - lag,
                    "log_end_offset": log_end,
                    "lag": 144_000_000 if is_gone else lag,
                    "lag_status": "normal",
                    "messages_lost": 800
                    if trouble and trouble[1] == "LOSING_DATA" and part == 1
                    else 0,
                    "time_lag_ms": lag * 90 if lag else 0,
                    "time_lag_method": "interpolated" if lag else "head",
                    "eta_s": lag / 40 if trouble and trouble[0] == "WARN" else None,
                }
            )
    return rows


def _status(name: str, topic: str, trouble: Any, is_gone: bool) -> list[Row]:
    verdict, cause, rule = trouble or ("OK", "OK", "the lag shrank")
    end = ago(days=19) if is_gone else AS_OF
    common = {"group_id": name, "window_end_ts": end, "rule": rule, "complete": 1.0}
    return [
        {**common, "verdict": verdict},
        *(
            {
                **common,
                "topic": topic,
                "partition": each,
                "verdict": cause if each < 2 else "OK",
                "lag": 12_000,
            }
            for each in range(PARTITIONS)
        ),
    ]


def _rebalances(name: str, index: int, random: Random) -> list[Row]:
    def one(at: int, cause: str, minutes: float, storm: str | None) -> Row:
        return {
            "group_id": name,
            "log_offset": at,
            "protocol": "consumer",
            "epoch": at + 1,
            "cause": cause,
            "start_ts": ago(minutes=minutes),
            "duration_ms": random.randrange(200, 9_000),
            "is_duration_exact": True,
            "members_before": 3,
            "members_after": 3,
            "joined": [f"{name}-member-{at}"] if cause != "left" else [],
            "left": [f"{name}-member-{at - 1}"] if cause != "joined" else [],
            "partitions_total": PARTITIONS,
            "partitions_moved": 1 + at % 3,
            "storm_id": storm,
        }

    # Every group starts with five joins within a minute, which is no storm.
    rows = [one(at, "joined", 600 - at / 5, None) for at in range(5)]
    rows.append(one(5, ("left", "metadata_changed")[index % 2], 90 + index % 300, None))
    if index % 12 == 3:
        rows += [
            one(
                6 + at,
                ("left", "joined", "restarted")[at % 3],
                100 + index % 400 - at / 2,
                f"{name}@6",
            )
            for at in range(14)
        ]
    return rows


def _ownership(name: str, topic: str, index: int, random: Random) -> list[Row]:
    rows = []
    for part in range(PARTITIONS):
        start = 600.0
        for at in range(4 if index % 12 == 3 else 2):
            end = start - random.randrange(60, 150)
            member = f"worker-{(part + at) % 3}"
            is_last = at == (3 if index % 12 == 3 else 1)
            rows.append(
                {
                    "group_id": name,
                    "topic": topic,
                    "partition": part,
                    "member_id": f"{name}-{member}-6f1c2b9e",
                    "client_id": member,
                    "client_host": f"/10.0.{index % 250}.{part}",
                    "valid_from": ago(minutes=start),
                    "valid_to": None if is_last else ago(minutes=end),
                    "from_log_offset": at,
                    "end_reason": "open" if is_last else "moved",
                    "source": "consumer",
                }
            )
            start = end - 1
    return rows


def _expiry(name: str, topic: str, index: int, is_stale: bool) -> list[Row]:
    if not is_stale:
        return [{"group_id": name, "topic": topic, "partition": 0, "basis": "never"}]
    hours = 3 + index % 40
    return [
        {
            "group_id": name,
            "topic": topic,
            "partition": each,
            "basis": "empty_since",
            "expires_ts": AS_OF + timedelta(hours=hours),
            "remaining_ms": hours * 3_600_000,
            "at_risk_messages": 0 if index % 20 == 5 else 40 + each,
            "note": "the group has had no members since the retention time began",
        }
        for each in range(PARTITIONS)
    ]


def _stale(name: str, index: int) -> Row:
    return {
        "group_id": name,
        "class": "abandoned",
        "score": 40 + index % 50,
        "reasons": [
            "no members, and idle for 6.0 days",
            "its longest pause was 1.2 days",
        ],
        "idle_days": 6.0,
        "usual_gap_days": 1.2,
        "total_lag": 160,
        "offsets_count": PARTITIONS,
        "would_expire_ts": AS_OF + timedelta(hours=3 + index % 40),
        "last_hosts": [f"/10.0.{index % 250}.1"],
        "last_client_ids": ["worker-1"],
    }


def _usage(name: str, topic: str, random: Random) -> list[Row]:
    return [
        {
            "day": date(2026, 11, 15 + day),
            "group_id": name,
            "topic": topic,
            "offsets_consumed": random.randrange(1_000, 90_000),
            "commits": 300,
        }
        for day in range(7)
    ]


def _load(names: list[str]) -> list[Row]:
    return [
        {
            "log_partition": each,
            "broker_id": each % 3,
            "groups": len(names) // 50,
            "commits": 300 + each,
            "commits_per_s": 0.5 + (each * 7 % 13) / 3,
            "top_group_id": names[each % len(names)] if names else None,
            "top_group_share": 0.4 if names else None,
        }
        for each in range(50)
    ]
