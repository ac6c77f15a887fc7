"""Operations on groups of any cluster: lag, selection, resets, plans, apply and undo.

They use the admin client and serve the command line: values in, values out, no output.

    report = await group_lag(admin, ["orders"])
    plans = await plan_offsets(admin, Action.RESET, {"orders": ToEarliest()})
    snapshot = await open_snapshot(admin, directory)
    results = await apply_items(admin, items_of(plans), snapshot)
    undo = await plan_undo(admin, read_snapshot(directory, snapshot.snapshot_id))

Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coterie.operations.apply import OnResult, apply_items, check_items
    from coterie.operations.current_groups import (
        CurrentGroup,
        read_current_groups,
        refuse_active,
    )
    from coterie.operations.expiry import (
        ExpiryClock,
        expiry_clock,
        offsets_retention_ms,
    )
    from coterie.operations.lag import (
        GroupLag,
        GroupLagReport,
        LagStatus,
        PartitionLag,
        group_lag,
        with_time_lags,
    )
    from coterie.operations.lag_rollup import (
        ConsumptionRate,
        Rollup,
        RollupBy,
        consumption_rate,
        roll_up,
    )
    from coterie.operations.offset_files import (
        GroupEntry,
        OffsetFile,
        read_offsets_file,
        write_offsets_file,
    )
    from coterie.operations.plan_files import (
        Action,
        ExpectedGroup,
        ItemResult,
        MemberEntry,
        OffsetEntry,
        Plan,
        PlanItem,
        Verdict,
        decode_plan,
        encode_plan,
        read_plan,
    )
    from coterie.operations.plans import (
        GroupPlan,
        items_of,
        plan_clone,
        plan_delete_groups,
        plan_delete_offsets,
        plan_offsets,
        plan_remove_members,
    )
    from coterie.operations.resets import (
        GroupReset,
        Note,
        ResetRow,
        Scenario,
        ShiftBy,
        ToCommits,
        ToCurrent,
        ToEarliest,
        ToExact,
        ToLatest,
        ToOffset,
        ToRows,
        ToTime,
        by_duration,
        plan_resets,
        to_datetime,
    )
    from coterie.operations.selection import (
        ALL_COMMITTED,
        Condition,
        Scope,
        ScopePartitions,
        Selection,
        SelectionResult,
        TopicSelector,
        resolve_partitions,
        select_groups,
    )
    from coterie.operations.snapshots import (
        Snapshot,
        SnapshotGroup,
        SnapshotHead,
        SnapshotWriter,
        list_snapshots,
        open_snapshot,
        read_snapshot,
    )
    from coterie.operations.time_lag import TimeLagMethod
    from coterie.operations.times import read_datetime_ms, read_duration_ns, time_before
    from coterie.operations.topic_ids import TopicIds
    from coterie.operations.undo import plan_undo

_MODULES: Final = {
    "coterie.operations.apply": (
        "OnResult",
        "apply_items",
        "check_items",
    ),
    "coterie.operations.current_groups": (
        "CurrentGroup",
        "read_current_groups",
        "refuse_active",
    ),
    "coterie.operations.expiry": (
        "ExpiryClock",
        "expiry_clock",
        "offsets_retention_ms",
    ),
    "coterie.operations.lag": (
        "GroupLag",
        "GroupLagReport",
        "LagStatus",
        "PartitionLag",
        "group_lag",
        "with_time_lags",
    ),
    "coterie.operations.lag_rollup": (
        "ConsumptionRate",
        "Rollup",
        "RollupBy",
        "consumption_rate",
        "roll_up",
    ),
    "coterie.operations.offset_files": (
        "GroupEntry",
        "OffsetFile",
        "read_offsets_file",
        "write_offsets_file",
    ),
    "coterie.operations.plan_files": (
        "Action",
        "ExpectedGroup",
        "ItemResult",
        "MemberEntry",
        "OffsetEntry",
        "Plan",
        "PlanItem",
        "Verdict",
        "decode_plan",
        "encode_plan",
        "read_plan",
    ),
    "coterie.operations.plans": (
        "GroupPlan",
        "items_of",
        "plan_clone",
        "plan_delete_groups",
        "plan_delete_offsets",
        "plan_offsets",
        "plan_remove_members",
    ),
    "coterie.operations.resets": (
        "GroupReset",
        "Note",
        "ResetRow",
        "Scenario",
        "ShiftBy",
        "ToCommits",
        "ToCurrent",
        "ToEarliest",
        "ToExact",
        "ToLatest",
        "ToOffset",
        "ToRows",
        "ToTime",
        "by_duration",
        "plan_resets",
        "to_datetime",
    ),
    "coterie.operations.selection": (
        "ALL_COMMITTED",
        "Condition",
        "Scope",
        "ScopePartitions",
        "Selection",
        "SelectionResult",
        "TopicSelector",
        "resolve_partitions",
        "select_groups",
    ),
    "coterie.operations.snapshots": (
        "Snapshot",
        "SnapshotGroup",
        "SnapshotHead",
        "SnapshotWriter",
        "list_snapshots",
        "open_snapshot",
        "read_snapshot",
    ),
    "coterie.operations.time_lag": ("TimeLagMethod",),
    "coterie.operations.times": (
        "read_datetime_ms",
        "read_duration_ns",
        "time_before",
    ),
    "coterie.operations.topic_ids": ("TopicIds",),
    "coterie.operations.undo": ("plan_undo",),
}
_WHERE: Final = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "ALL_COMMITTED",
    "Action",
    "Condition",
    "ConsumptionRate",
    "CurrentGroup",
    "ExpectedGroup",
    "ExpiryClock",
    "GroupEntry",
    "GroupLag",
    "GroupLagReport",
    "GroupPlan",
    "GroupReset",
    "ItemResult",
    "LagStatus",
    "MemberEntry",
    "Note",
    "OffsetEntry",
    "OffsetFile",
    "OnResult",
    "PartitionLag",
    "Plan",
    "PlanItem",
    "ResetRow",
    "Rollup",
    "RollupBy",
    "Scenario",
    "Scope",
    "ScopePartitions",
    "Selection",
    "SelectionResult",
    "ShiftBy",
    "Snapshot",
    "SnapshotGroup",
    "SnapshotHead",
    "SnapshotWriter",
    "TimeLagMethod",
    "ToCommits",
    "ToCurrent",
    "ToEarliest",
    "ToExact",
    "ToLatest",
    "ToOffset",
    "ToRows",
    "ToTime",
    "TopicIds",
    "TopicSelector",
    "Verdict",
    "apply_items",
    "by_duration",
    "check_items",
    "consumption_rate",
    "decode_plan",
    "encode_plan",
    "expiry_clock",
    "group_lag",
    "items_of",
    "list_snapshots",
    "offsets_retention_ms",
    "open_snapshot",
    "plan_clone",
    "plan_delete_groups",
    "plan_delete_offsets",
    "plan_offsets",
    "plan_remove_members",
    "plan_resets",
    "plan_undo",
    "read_current_groups",
    "read_datetime_ms",
    "read_duration_ns",
    "read_offsets_file",
    "read_plan",
    "read_snapshot",
    "refuse_active",
    "resolve_partitions",
    "roll_up",
    "select_groups",
    "time_before",
    "to_datetime",
    "with_time_lags",
    "write_offsets_file",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
