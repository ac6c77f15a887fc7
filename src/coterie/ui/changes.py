"""Changes that a page makes to groups: preview, apply, undo.

They take the way of the commands: a preview is a plan of `operations.plans`, which
writes nothing; `operations.apply` reads each group again, refuses one that has changed
since, and saves the prior offsets in a snapshot before it writes. `coterie groups undo`
and the page undo each other's changes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from coterie import client
from coterie import operations as ops
from coterie.errors import OperationRefused, SettingError
from coterie.ui.rows import Row

_LOGGER = logging.getLogger(__name__)

GROUPS_MAX: Final = 1_000
"""The groups of one change."""
PREVIEWS_MAX: Final = 50
"""The previews that are kept; the oldest is dropped first."""
ROWS_MAX: Final = 1_000
"""The rows that a page shows of one change. All of them are applied."""
SNAPSHOTS_SHOWN_MAX: Final = 100

_Text = Annotated[str, msgspec.Meta(max_length=300)]


class PreviewRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A change to preview."""

    action: Literal["reset", "delete", "undo"]
    groups: Annotated[list[str], msgspec.Meta(max_length=GROUPS_MAX)] = []
    to: Literal[
        "earliest", "latest", "current", "offset", "shift", "datetime", "duration"
    ] = "earliest"
    value: _Text = ""
    partitions: Annotated[list[_Text], msgspec.Meta(max_length=1_000)] = []
    """Topics, or TOPIC:PARTITION,...; empty for every committed partition."""
    snapshot: _Text = ""


class ApplyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A preview to apply."""

    preview: _Text


@dataclass(frozen=True, slots=True)
class _Preview:
    items: tuple[ops.PlanItem, ...]
    command: str


class Changes:
    """The previews and changes of all pages, with the rights of the connection."""

    def __init__(self, admin: client.AdminClient, snapshots: Path) -> None:
        self._admin = admin
        self._snapshots = snapshots
        self._previews: OrderedDict[str, _Preview] = OrderedDict()
        self._lock = asyncio.Lock()

    async def preview(self, request: PreviewRequest) -> Row:
        """Plan a change and return its rows; nothing is written. Raises
        CoterieError."""
        if request.action == "undo":
            planned = await self._plan_undo(request.snapshot)
        elif not request.groups:
            raise SettingError("no group is named")
        elif request.action == "delete":
            planned = await ops.plan_delete_groups(self._admin, request.groups)
        else:
            scenarios = dict.fromkeys(request.groups, _scenario(request))
            planned = await ops.plan_offsets(
                self._admin, ops.Action.RESET, scenarios, _scope(request)
            )
        items = ops.items_of(planned)
        preview_id = None
        if items:
            preview_id = secrets.token_urlsafe(18)
            command = f"coterie ui: {request.action}"
            self._previews[preview_id] = _Preview(items, command)
            while len(self._previews) > PREVIEWS_MAX:
                self._previews.popitem(last=False)
        rows = [row for plan in planned for row in plan.rows]
        return {
            "preview": preview_id,
            "groups": len(items),
            "offsets": sum(1 for row in rows if row.is_write or _is_deleted(row)),
            "rows": [_row(each) for each in rows[:ROWS_MAX]],
            "rows_total": len(rows),
            "errors": [
                {"group": plan.group_id, "error": str(plan.error)}
                for plan in planned
                if plan.error is not None
            ],
            "warnings": [
                {"group": plan.group_id, "error": each}
                for plan in planned
                for each in plan.warnings
            ],
        }

    async def apply(self, request: ApplyRequest) -> Row:
        """Apply a preview, once; return the results and the id for an undo. Raises
        CoterieError."""
        preview = self._previews.pop(request.preview, None)
        if preview is None:
            raise OperationRefused(
                "this preview was applied already, or is too old: make a new one"
            )
        async with self._lock:
            cluster = await self._admin.brokers.describe()
            now = datetime.now(UTC)
            head = ops.SnapshotHead(
                f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
                ops.utc_text(round(now.timestamp() * 1000)),
                cluster.cluster_id,
                preview.command,
            )
            snapshot = ops.SnapshotWriter(self._snapshots, head)
            results = await ops.apply_items(self._admin, preview.items, snapshot)
        for each in results:
            _LOGGER.info(
                "%s: %s of group %r: %s",
                preview.command,
                each.item.action.value,
                each.item.group_id,
                each.verdict.value,
            )
        is_undoable = snapshot.has_groups and any(map(_has_written, results))
        return {
            "results": [_result(each) for each in results],
            "snapshot": snapshot.snapshot_id if is_undoable else None,
        }

    async def snapshots(self) -> Row:
        """Return the latest changes of this cluster that can be undone, newest first.
        Raises CoterieError."""
        cluster = await self._admin.brokers.describe()
        found = await asyncio.to_thread(
            lambda: [
                {
                    "id": each.head.snapshot_id,
                    "taken_at": each.head.taken_at,
                    "command": each.head.command,
                    "groups": [group.group_id for group in each.groups[:3]],
                    "groups_total": len(each.groups),
                }
                for each in ops.list_snapshots(self._snapshots)
                if each.head.cluster_id == cluster.cluster_id and each.groups
            ]
        )
        return {"snapshots": found[:SNAPSHOTS_SHOWN_MAX], "total": len(found)}

    async def _plan_undo(self, snapshot_id: str) -> Sequence[ops.GroupPlan]:
        snapshot = ops.read_snapshot(self._snapshots, snapshot_id)
        cluster = await self._admin.brokers.describe()
        if cluster.cluster_id != snapshot.head.cluster_id:
            raise SettingError(
                f"snapshot {snapshot_id} is of cluster {snapshot.head.cluster_id}, and"
                f" this is cluster {cluster.cluster_id}"
            )
        return await ops.plan_undo(self._admin, snapshot)


def _scenario(request: PreviewRequest) -> ops.Scenario:
    value = request.value.strip()
    match request.to:
        case "earliest":
            return ops.ToEarliest()
        case "latest":
            return ops.ToLatest()
        case "current":
            return ops.ToCurrent()
        case "datetime":
            return ops.to_datetime(value)
        case "duration":
            return ops.by_duration(value, time.time_ns() // 1_000_000)
        case "offset":
            offset = _integer(value)
            if offset < 0:
                raise SettingError(f"{value!r} is not an offset: use a number from 0")
            return ops.ToOffset(offset)
        case "shift":
            return ops.ShiftBy(_integer(value))


def _integer(text: str) -> int:
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise SettingError(f"{text!r} is not a number")
    return int(text)


def _scope(request: PreviewRequest) -> ops.Scope:
    if not request.partitions:
        return ops.ALL_COMMITTED
    return tuple(ops.TopicSelector.parse(each) for each in request.partitions)


def _is_deleted(row: ops.ResetRow) -> bool:
    return row.new is None and row.prior is not None and row.error is None


def _row(row: ops.ResetRow) -> dict[str, Any]:
    def offset(committed: client.CommittedOffset | None) -> int | None:
        return None if committed is None else committed.offset

    return {
        "group": row.group_id,
        "topic": row.topic,
        "partition": row.partition,
        "prior": offset(row.prior),
        "new": offset(row.new),
        "delta": row.delta,
        "lag_after": row.lag_after,
        "notes": [note.value for note in row.notes],
        "error": None if row.error is None else str(row.error),
    }


def _has_written(result: ops.ItemResult) -> bool:
    return result.verdict.value in {"done", "partial"}


def _result(result: ops.ItemResult) -> dict[str, Any]:
    return {
        "group": result.item.group_id,
        "action": result.item.action.value,
        "verdict": result.verdict.value,
        "reasons": [*result.reasons, *result.warnings],
    }
