from coterie.broker.catalog.catalog import Catalog as Catalog
from coterie.broker.catalog.entries import (
    Entry as Entry,
    EntryKind as EntryKind,
)
from coterie.broker.catalog.topics import Topic as Topic
from coterie.broker.coordinator.classic.group import ClassicGroup as ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup as ConsumerGroup
from coterie.broker.coordinator.offsets.accepted import (
    AcceptedOffsets as AcceptedOffsets,
)
from coterie.broker.coordinator.offsets.committed import (
    Packed as Packed,
    response_partition as response_partition,
    unpack as unpack,
)
from coterie.broker.coordinator.record_serde import (
    BARRIER_TYPE as BARRIER_TYPE,
    is_barrier as is_barrier,
)
from coterie.broker.coordinator.result import Result as Result
from coterie.broker.coordinator.shard import Shard as Shard
from coterie.broker.coordinator.state import State as State
from coterie.broker.log.log import (
    Append as Append,
    Log as Log,
    LogPartition as LogPartition,
    Operation as Operation,
    StagedWrite as StagedWrite,
    StoredPartition as StoredPartition,
)
from coterie.broker.log.memory import MemoryLog as MemoryLog
from coterie.broker.protocol.connection import (
    Connection as Connection,
    Request as Request,
)
from coterie.broker.protocol.sasl import Authentication as Authentication
from coterie.broker.runtime.batches import result_batch as result_batch
from coterie.broker.runtime.data import DataPlane as DataPlane
from coterie.broker.runtime.decoding import (
    Outcome as Outcome,
    RunInWorker as RunInWorker,
)
from coterie.broker.runtime.deferred import PendingRequest as PendingRequest
from coterie.broker.runtime.durability import (
    Done as Done,
    Durability as Durability,
)
from coterie.broker.runtime.fetch_sessions import FetchSessions as FetchSessions
from coterie.broker.runtime.loader import replay_batch as replay_batch
from coterie.broker.runtime.runtime import Runtime as Runtime
from coterie.broker.runtime.shards import (
    CoordinatorPartition as CoordinatorPartition,
    Loaded as Loaded,
    Phase as Phase,
    ShardStore as ShardStore,
    partition_for as partition_for,
)
from coterie.broker.runtime.slices import Slices as Slices
from coterie.broker.runtime.system import (
    Scheduler as Scheduler,
    Timekeeping as Timekeeping,
    TimerHandle as TimerHandle,
    suspended_clock as suspended_clock,
    wall_clock as wall_clock,
)
from coterie.broker.runtime.timers import TimerEntry as TimerEntry
from coterie.broker.server.apis.routing import (
    LEADER_EPOCH as LEADER_EPOCH,
    leader_of as leader_of,
)
from coterie.broker.server.apis.transactions import (
    CheckedCommit as CheckedCommit,
    check_commit as check_commit,
    check_offsets_to_txn as check_offsets_to_txn,
    code_of_missing_partition as code_of_missing_partition,
    commit_adds_partition as commit_adds_partition,
    refuse_offsets_to_txn as refuse_offsets_to_txn,
)
from coterie.broker.server.assembly import group_server as group_server
from coterie.broker.server.broker import (
    Broker as Broker,
    Node as Node,
    TRANSACTION_PARTITIONS as TRANSACTION_PARTITIONS,
)
from coterie.broker.server.call import (
    Call as Call,
    Handler as Handler,
    Peer as Peer,
)
from coterie.broker.server.client_connection import (
    READ_AHEAD_BYTES as READ_AHEAD_BYTES,
    UNCOUNTED_BYTES as UNCOUNTED_BYTES,
)
from coterie.broker.server.config import make_settings as make_settings
from coterie.broker.server.connections import Connections as Connections
from coterie.broker.server.dispatch import HANDLERS as HANDLERS
from coterie.broker.server.heartbeat_memo import (
    HEARTBEAT_FRONTS as HEARTBEAT_FRONTS,
    HeartbeatMemo as HeartbeatMemo,
)
from coterie.broker.server.listener import Listener as Listener
from coterie.broker.server.monitoring import Monitoring as Monitoring
from coterie.broker.server.request_memory import (
    EXHAUSTED_TIMEOUT_S as EXHAUSTED_TIMEOUT_S,
    MemoryShare as MemoryShare,
    PROGRESS_INTERVAL_S as PROGRESS_INTERVAL_S,
    Progress as Progress,
)
from coterie.broker.server.security import (
    Security as Security,
    acl_authorizer as acl_authorizer,
    choose_authorizer as choose_authorizer,
)
from coterie.broker.server.server import (
    Server as Server,
    ServerOptions as ServerOptions,
    tune_interpreter as tune_interpreter,
)
from coterie.broker.server.turns import TURN_S as TURN_S
