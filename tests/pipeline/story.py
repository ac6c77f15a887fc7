"""Rows of an example lake.

The group billing rebalances and lags, audit has a rebalance storm, nightly is stale,
and the name of one group contains HTML.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

from tests.pipeline.lakes import AS_OF, ago

HOSTILE: Final = '</script><img src=x onerror="document.title=1">\u202e{{7*7}}'
PARTITIONS: Final = 6
NAMES: Final = ("ada", "grace", "linus")
TOPIC_ID: Final = "00" * 16


def owner_of(partition: int) -> str:
    return NAMES[partition % 3]


def story() -> dict[str, list[dict[str, Any]]]:
    """Return the rows by table; other tables are empty."""
    return {
        "current_groups": _groups(),
        "current_members": _members(),
        "current_offsets": _offsets(),
        "offset_commit_history": _history(),
        "partition_end_samples": _samples(),
        "lag_history": _lags(),
        "group_status": _status(),
        "rebalance_timeline": _rebalances(),
        "partition_ownership_history": _ownership(),
        "member_sessions": _sessions(),
        "expiry_forecast": _expiry(),
        "stale_group_candidates": _stale(),
        "group_usage_daily": _usage(),
        "coordinator_load": _load(),
        "data_quality": _quality(),
    }


def _groups() -> list[dict[str, Any]]:
    common = {"first_seen_ts": ago(days=3), "last_state_change_ts": ago(minutes=1)}
    billing = {
        **common,
        "group_id": "billing",
        "group_type": "consumer",
        "protocol_type": "consumer",
        "assignor": "uniform",
        "state": "Stable",
        "epoch": 4,
        "assignment_epoch": 4,
        "member_count": 2,
        "topic_count": 1,
        "partition_count": PARTITIONS,
        "owned_partition_count": PARTITIONS,
        "last_commit_ts": ago(seconds=2),
        "log_partition": 7,
    }
    nightly = {
        **common,
        "group_id": "nightly",
        "group_type": "classic",
        "protocol_type": "consumer",
        "assignor": "range",
        "state": "Empty",
        "epoch": 9,
        "partition_count": 1,
        "topic_count": 1,
        "empty_since_ts": ago(days=2),
        "last_commit_ts": ago(days=2),
        "log_partition": 9,
    }
    audit = {**nightly, "group_id": "audit", "state": "Stable", "member_count": 3}
    hostile = {**nightly, "group_id": HOSTILE, "group_type": "simple"}
    return [billing, {**audit, "empty_since_ts": None}, nightly, hostile]


def _members() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "billing",
            "member_id": f"{name}-1",
            "client_id": name,
            "client_host": "/10.0.0.1",
            "protocol": "consumer",
            "member_epoch": 4,
            "member_state": "stable",
            "subscribed_topics": ["orders"],
            "assigned": [
                {"topic_id": TOPIC_ID, "topic": "orders", "partition": each}
                for each in range(PARTITIONS)
                if NAMES[1 + each % 2] == name
            ],
            "since_ts": ago(hours=1),
        }
        for name in NAMES[1:]
    ]


def _offsets() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "billing",
            "topic": "orders",
            "partition": each,
            "committed_offset": 100 * each,
            "commit_ts": ago(seconds=2),
            "log_partition": 7,
            "log_offset": 1000 + each,
        }
        for each in range(PARTITIONS)
    ] + [
        {
            "group_id": "nightly",
            "topic": "reports",
            "committed_offset": 5,
            "commit_ts": ago(days=2),
            "log_partition": 9,
        }
    ]


def _history() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "billing",
            "topic": "orders",
            "partition": each % PARTITIONS,
            "log_partition": 7,
            "log_offset": each,
            "committed_offset": each if each != 200 else 3,
            "prev_offset": each - PARTITIONS if each >= PARTITIONS else None,
            "delta": PARTITIONS if each >= PARTITIONS else None,
            "direction": "first" if each < PARTITIONS else "forward",
            "commit_ts": ago(minutes=300 - each),
            "actor": "owner",
            "owner_client_id": owner_of(each % PARTITIONS),
        }
        for each in range(300)
    ]


def _samples() -> list[dict[str, Any]]:
    return [
        {
            "topic": "orders",
            "partition": part,
            "sample_ts": ago(minutes=10 * at),
            "high_watermark": 1_000 - 10 * at,
        }
        for part in range(PARTITIONS)
        for at in range(30)
    ]


def _lags() -> list[dict[str, Any]]:
    return [
        {
            "group_id": group,
            "topic": "orders",
            "partition": part,
            "sample_ts": ago(minutes=10 * at),
            "committed_offset": 900 - 20 * at,
            "log_end_offset": 1_000 - 10 * at,
            "lag": 100 + 10 * at + part,
            "lag_raw": 100 + 10 * at + part,
            "lag_status": "normal",
            "messages_lost": 3 if part == 5 and at == 0 else 0,
            "time_lag_ms": 60_000 * (at + 1),
            "time_lag_method": "interpolated" if part else "extrapolated",
            "eta_s": 90.5,
            "retention_margin_offsets": 800,
        }
        for group in ("billing", HOSTILE)
        for part in range(PARTITIONS)
        for at in range(30)
    ]


def _status() -> list[dict[str, Any]]:
    rows = []
    for at in range(5):
        time = ago(minutes=30 * at)
        for group, verdict in (("billing", "WARN"), ("audit", "OK"), (HOSTILE, "ERR")):
            code = {"OK": 1, "WARN": 2, "ERR": 3}[verdict if at < 4 else "OK"]
            one = {
                "group_id": group,
                "window_end_ts": time,
                "verdict": verdict if at < 4 else "OK",
                "burrow_code": code,
                "rule": "lag never fell",
                "window_commits": 10,
                "complete": 1.0,
                "lag": 600,
            }
            rows += [one, {**one, "topic": "orders", "partition": 3, "lag": 103}]
    return rows


def _rebalances() -> list[dict[str, Any]]:
    first = [
        ("first", [], ["ada-1"], 0, 1, 0),
        ("joined", ["grace-1", "linus-1"], [], 1, 3, 4),
        ("left", [], ["ada-1"], 3, 2, 2),
    ]
    rows = [
        {
            "group_id": "billing",
            "log_partition": 7,
            "log_offset": 10 * at,
            "protocol": "consumer",
            "epoch": at + 1,
            "prev_epoch": at or None,
            "cause": cause,
            "start_ts": ago(minutes=60 - 20 * at),
            "end_ts": ago(minutes=60 - 20 * at - 0.1),
            "duration_ms": 6_000,
            "is_duration_exact": True,
            "members_before": before,
            "members_after": after,
            "joined": joined,
            "left": left,
            "partitions_total": PARTITIONS,
            "partitions_moved": moved,
        }
        for at, (cause, joined, left, before, after, moved) in enumerate(first)
    ]
    storm = [
        {
            "group_id": group,
            "log_partition": 9,
            "log_offset": at,
            "protocol": "classic",
            "epoch": at,
            "cause": "restarted",
            "start_ts": ago(minutes=120 - at),
            "members_before": 3,
            "members_after": 3,
            "partitions_moved": 2,
            "excess_moves": 2,
            "storm_id": f"{group}-storm",
            "storm_size": 7,
        }
        for group in ("audit", HOSTILE)
        for at in range(7)
    ]
    return rows + storm


def _ownership() -> list[dict[str, Any]]:
    rows = []
    for part in range(PARTITIONS):
        common = {
            "group_id": "billing",
            "topic": "orders",
            "topic_id": TOPIC_ID,
            "partition": part,
            "log_partition": 7,
            "client_host": "/10.0.0.1",
            "source": "consumer",
        }
        was, now = owner_of(part), NAMES[1 + part % 2]
        rows += [
            {
                **common,
                "member_id": f"{was}-1",
                "client_id": was,
                "epoch_from": 2,
                "epoch_to": 3,
                "valid_from": ago(minutes=40),
                "valid_to": ago(minutes=20),
                "from_log_offset": part,
                "to_log_offset": 100 + part,
                "end_reason": "member_left" if was == "ada" else "moved",
            },
            {
                **common,
                "member_id": f"{now}-1",
                "client_id": now,
                "epoch_from": 3,
                "valid_from": ago(minutes=19),
                "from_log_offset": 100 + part,
                "end_reason": "open",
                "gap_before_ms": 60_000,
            },
        ]
    return rows


def _sessions() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "billing",
            "member_id": f"{name}-1",
            "client_id": name,
            "client_host": "/10.0.0.1",
            "protocol": "consumer",
            "joined_ts": ago(hours=1),
            "left_ts": ago(minutes=20) if name == "ada" else None,
            "session_ms": 2_400_000 if name == "ada" else None,
            "end_reason": "left" if name == "ada" else "open",
        }
        for name in NAMES
    ]


def _expiry() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "nightly",
            "topic": "reports",
            "basis": "empty_since",
            "base_ts": ago(days=2),
            "retention_ms": 7 * 86_400_000,
            "expires_ts": AS_OF + timedelta(days=5),
            "remaining_ms": 5 * 86_400_000,
            "at_risk_messages": 12,
        },
        {
            "group_id": "billing",
            "topic": "orders",
            "partition": 3,
            "basis": "consumer_commit",
            "expires_ts": AS_OF + timedelta(hours=5),
            "remaining_ms": 5 * 3_600_000,
            "is_trap": True,
            "note": "goes as soon as the last member does",
        },
        {
            "group_id": HOSTILE,
            "topic": HOSTILE,
            "basis": "simple_commit",
            "expires_ts": ago(minutes=5),
            "remaining_ms": -300_000,
        },
        {"group_id": "billing", "topic": "orders", "partition": 1, "basis": "never"},
    ]


def _stale() -> list[dict[str, Any]]:
    return [
        {
            "group_id": "nightly",
            "class": "abandoned",
            "score": 80,
            "reasons": ["empty for 2 days", "its topic is still written"],
            "empty_since_ts": ago(days=2),
            "last_commit_ts": ago(days=2),
            "idle_days": 2.0,
            "usual_gap_days": 0.5,
            "total_lag": 12,
            "offsets_count": 1,
            "log_bytes": 120,
            "would_expire_ts": AS_OF + timedelta(days=5),
            "last_hosts": ["/10.0.0.9"],
            "last_client_ids": ["cron"],
            "plan_item_id": "delete-nightly",
        },
        {
            "group_id": HOSTILE,
            "class": "typo",
            "score": 60,
            "reasons": [HOSTILE],
            "last_hosts": [HOSTILE],
            "looks_like": "billing",
            "plan_item_id": "delete-2",
        },
        {
            "group_id": "billing",
            "class": "keep",
            "blockers": ["it has members"],
        },
    ]


def _usage() -> list[dict[str, Any]]:
    return [
        {
            "day": date(2026, 11, 19 + day),
            "group_id": group,
            "topic": "orders",
            "offsets_consumed": 1_000 * (day + 1) * weight,
            "commits": 100 * weight,
            "log_bytes_written": 4_000 * weight,
            "active_minutes": 60,
            "cost_share": weight / 6,
        }
        for day in range(3)
        for group, weight in (("billing", 3), ("audit", 2), (HOSTILE, 1))
    ]


def _load() -> list[dict[str, Any]]:
    return [
        {
            "log_partition": each,
            "broker_id": each % 3,
            "groups": 1 if each in {7, 9} else 0,
            "commits": 300 if each == 7 else each,
            "commits_per_s": 3.0 if each == 7 else 0.01 * each,
            "bytes": 40 * each,
            "top_group_id": {7: "billing", 9: HOSTILE}.get(each),
            "top_group_share": 0.9 if each in {7, 9} else None,
        }
        for each in range(50)
    ]


def _quality() -> list[dict[str, Any]]:
    return [
        {
            "log_partition": each,
            "from_offset": 0,
            "next_offset": 310,
            "end_offset": 310,
            "records": 310,
            "commits": 300,
            "group_records": 9,
            "tombstones": 1,
            "gaps": int(each == 9),
            "missing_offsets": 40 * int(each == 9),
            "first_ts": ago(days=3),
            "last_ts": AS_OF,
        }
        for each in (7, 9)
    ]
