from coterie.broker.coordinator.classic.group import ClassicGroup as ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup as ConsumerGroup
from coterie.broker.log.log import Log as Log
from coterie.broker.log.memory import MemoryLog as MemoryLog
from coterie.broker.protocol.sasl import Authentication as Authentication
from coterie.broker.runtime.decoding import (
    Outcome as Outcome,
    RunInWorker as RunInWorker,
)
from coterie.broker.runtime.fetch_sessions import FetchSessions as FetchSessions
from coterie.broker.runtime.shards import partition_for as partition_for
from coterie.broker.runtime.system import Timekeeping as Timekeeping
from coterie.broker.runtime.timers import Entry as Entry
from coterie.broker.server.apis.routing import (
    LEADER_EPOCH as LEADER_EPOCH,
    leader_of as leader_of,
)
from coterie.broker.server.broker import (
    TRANSACTION_PARTITIONS as TRANSACTION_PARTITIONS,
    Broker as Broker,
    Node as Node,
)
from coterie.broker.server.call import Call as Call, Handler as Handler, Peer as Peer
from coterie.broker.server.config import make_settings as make_settings
from coterie.broker.server.dispatch import HANDLERS as HANDLERS
from coterie.broker.server.server import (
    Server as Server,
    ServerOptions as ServerOptions,
)
