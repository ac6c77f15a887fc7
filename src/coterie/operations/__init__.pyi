from coterie.operations.apply import (
    OnResult as OnResult,
    apply_items as apply_items,
    check_items as check_items,
)
from coterie.operations.current_groups import (
    CurrentGroup as CurrentGroup,
    read_current_groups as read_current_groups,
    refuse_active as refuse_active,
)
from coterie.operations.expiry import (
    ExpiryClock as ExpiryClock,
    expiry_clock as expiry_clock,
    offsets_retention_ms as offsets_retention_ms,
)
from coterie.operations.hidden_topics import (
    LEFT_OUT as LEFT_OUT,
    may_hide_topics as may_hide_topics,
)
from coterie.operations.lag import (
    GroupLag as GroupLag,
    GroupLagReport as GroupLagReport,
    LagStatus as LagStatus,
    PartitionLag as PartitionLag,
    each_partition as each_partition,
    group_lag as group_lag,
    with_time_lags as with_time_lags,
)
from coterie.operations.lag_rollup import (
    ConsumptionRate as ConsumptionRate,
    Rollup as Rollup,
    RollupBy as RollupBy,
    consumption_rate as consumption_rate,
    roll_up as roll_up,
)
from coterie.operations.offset_files import (
    CsvRow as CsvRow,
    GroupEntry as GroupEntry,
    OffsetFile as OffsetFile,
    read_csv as read_csv,
    read_exported_topics as read_exported_topics,
    read_offsets_file as read_offsets_file,
    write_csv as write_csv,
    write_offsets_file as write_offsets_file,
)
from coterie.operations.plan_files import (
    Action as Action,
    ExpectedGroup as ExpectedGroup,
    ItemResult as ItemResult,
    MemberEntry as MemberEntry,
    OffsetEntry as OffsetEntry,
    Plan as Plan,
    PlanItem as PlanItem,
    RESULTS_SUFFIX as RESULTS_SUFFIX,
    ResultFile as ResultFile,
    ResultLine as ResultLine,
    Verdict as Verdict,
    decode_plan as decode_plan,
    encode_plan as encode_plan,
    item_id_of as item_id_of,
    read_plan as read_plan,
    utc_text as utc_text,
)
from coterie.operations.plans import (
    GroupPlan as GroupPlan,
    items_of as items_of,
    plan_clone as plan_clone,
    plan_delete_groups as plan_delete_groups,
    plan_delete_offsets as plan_delete_offsets,
    plan_offsets as plan_offsets,
    plan_remove_members as plan_remove_members,
)
from coterie.operations.resets import (
    GroupReset as GroupReset,
    Note as Note,
    ResetRow as ResetRow,
    Scenario as Scenario,
    ShiftBy as ShiftBy,
    ToCommits as ToCommits,
    ToCurrent as ToCurrent,
    ToEarliest as ToEarliest,
    ToExact as ToExact,
    ToLatest as ToLatest,
    ToOffset as ToOffset,
    ToRows as ToRows,
    ToTime as ToTime,
    by_duration as by_duration,
    drop_metadata as drop_metadata,
    plan_resets as plan_resets,
    to_datetime as to_datetime,
    write_offsets as write_offsets,
)
from coterie.operations.selection import (
    ALL_COMMITTED as ALL_COMMITTED,
    Condition as Condition,
    Scope as Scope,
    ScopePartitions as ScopePartitions,
    Selection as Selection,
    SelectionResult as SelectionResult,
    TopicSelector as TopicSelector,
    is_in_scope as is_in_scope,
    reads as reads,
    resolve_partitions as resolve_partitions,
    select_groups as select_groups,
)
from coterie.operations.snapshots import (
    Snapshot as Snapshot,
    SnapshotGroup as SnapshotGroup,
    SnapshotHead as SnapshotHead,
    SnapshotWriter as SnapshotWriter,
    list_snapshots as list_snapshots,
    new_id as new_id,
    open_snapshot as open_snapshot,
    read_snapshot as read_snapshot,
)
from coterie.operations.time_lag import TimeLagMethod as TimeLagMethod
from coterie.operations.times import (
    read_datetime_ms as read_datetime_ms,
    read_duration_ns as read_duration_ns,
    read_iso_duration_ns as read_iso_duration_ns,
    time_before as time_before,
)
from coterie.operations.topic_ids import (
    TopicIds as TopicIds,
    read_topic_ids as read_topic_ids,
)
from coterie.operations.undo import plan_undo as plan_undo
