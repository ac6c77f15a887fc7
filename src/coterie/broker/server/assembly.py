"""Build a broker from its parts; start and stop it.

The order of construction matters for a failed flush: the catalog is reloaded before the
shards, which read topics from it.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from coterie.auth.authorizer import AclAuthorizer, AllowAll, Authorizer
from coterie.broker.catalog.catalog import Catalog
from coterie.broker.coordinator.assignors.registry import (
    ENTRY_POINTS,
    EntryPoint,
    configured,
)
from coterie.broker.coordinator.result import CoordinatorEnvironment
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.decoding import DecodeWorker
from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.log_cleaner import LogCleaner
from coterie.broker.runtime.quotas import Quotas
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.share_partitions import SharePartitions
from coterie.broker.runtime.share_sessions import ShareSessions
from coterie.broker.runtime.share_state import ShareStates
from coterie.broker.runtime.slices import Slices
from coterie.broker.runtime.snapshots import Snapshots, Snapshotter
from coterie.broker.runtime.system import (
    Timekeeping,
    random_member_suffix,
    random_session_id,
    random_topic_id,
    random_uuid,
    steady_clock,
    wall_clock,
)
from coterie.broker.runtime.topic_changes import TopicChanges
from coterie.broker.runtime.transactions import TransactionPlane
from coterie.broker.server.broker import Broker
from coterie.errors import SettingError
from coterie.settings import Settings
from coterie.types import OFFSETS_TOPIC, LogOffset

_SPACE: Final = "broker"
_CLUSTER_ID: Final = b"cluster.id"
_SECRET: Final = b"secret"


class Assembly:
    """A broker and its background work. It has to be created inside a running loop.

    `timekeeping` replaces the time of the machine, except for connections.

    Raises LogError when the log cannot be read, and SettingError for settings that do
    not fit the number of nodes.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        node_count: int = 1,
        authorizer: Authorizer | None = None,
        timekeeping: Timekeeping | None = None,
    ) -> None:
        racks = settings.broker_rack
        if racks and len(racks) != node_count:
            raise SettingError(
                f"broker.rack names {len(racks)} racks for {node_count} nodes: name "
                "one rack for each node, in order"
            )
        loop = asyncio.get_running_loop()
        time = timekeeping or Timekeeping(steady_clock(), wall_clock, loop, loop)
        flusher = Flusher(log, loop, threaded=not isinstance(log, MemoryLog))
        catalog = Catalog(settings, range(1, node_count + 1), _acls(authorizer))
        self._decoder = DecodeWorker(loop)
        data = DataPlane(
            log,
            flusher,
            catalog,
            timekeeping=time,
            scheduler=loop,
            run_in_worker=self._decoder.run,
        )
        flusher.on_failure(lambda _: data.reload())
        data.load()
        self._snapshots = Snapshots(log)
        self._loader = Loader(log, flusher, self._snapshots, loop)
        runtime = Runtime(
            coordinator_environment(settings, catalog, time),
            scheduler=loop,
            timekeeping=time,
        )
        self._snapshotter = Snapshotter(self._snapshots, flusher, runtime.shards, loop)
        runtime.on_growth(data.notify_growth)
        runtime.on_growth(self._snapshotter.consider)
        self._topic_changes = TopicChanges(runtime, loop)
        self.broker = _broker(
            settings,
            data,
            runtime,
            authorizer or AllowAll(),
            cluster_id=_stored(log, _CLUSTER_ID, _random_cluster_id).decode(),
            secret=_stored(log, _SECRET, secrets.token_bytes),
        )
        transactions = self.broker.transactions
        self._log_cleaner = LogCleaner(data, transactions, self._compaction_bound)

    def start(self) -> None:
        """Create `__consumer_offsets` if the log is new, and start loading the shards.

        Raises LogError.
        """
        broker = self.broker
        topic = broker.data.ensure_offsets_topic(random_topic_id())
        broker.flusher.flush()
        broker.runtime.start(topic.partition_count)
        for index in range(topic.partition_count):
            log_partition = LogPartition(topic.topic_id, index)
            broker.runtime.assign(index, self._loader.store(log_partition))
        self._loader.slices.run()
        broker.catalog.watch(self._topic_changes.add)
        broker.transactions.start()
        self._log_cleaner.start()

    def stop(self) -> None:
        """Make everything durable, including a snapshot, and close the log."""
        broker = self.broker
        self._log_cleaner.stop()
        self._decoder.close()
        broker.flusher.flush()
        self._snapshotter.write_all()
        self._loader.slices.clear()
        broker.runtime.stop()
        broker.share_partitions.stop()
        broker.flusher.flush()
        broker.flusher.close()
        broker.log.close()

    def abort(self) -> None:
        """Close the log without the writes that are still staged."""
        broker = self.broker
        self._log_cleaner.stop()
        self._decoder.close()
        broker.flusher.abandon()
        self._loader.slices.clear()
        broker.runtime.stop()
        broker.share_partitions.stop()
        broker.flusher.abandon()
        broker.flusher.close()
        broker.log.close()

    def _compaction_bound(self, log_partition: LogPartition) -> LogOffset | None:
        """Return the offset from which compaction has to keep all records.

        A shard that starts from its snapshot needs every tombstone since then; a shard
        that is still loading needs all of them. None for other partitions.
        """
        offsets_topic = self.broker.catalog.topics.get(OFFSETS_TOPIC)
        if offsets_topic is None or offsets_topic.topic_id != log_partition.topic_id:
            return None
        if (
            self.broker.runtime.shards[log_partition.partition].phase
            is not Phase.ACTIVE
        ):
            return 0
        return self._snapshots.replay_from(log_partition.partition)


def group_server(settings: Settings, cluster_id: str, authorizer: Authorizer) -> Broker:
    """Return a broker without nodes, whose shards are unassigned: `Runtime.assign`
    gives them logs.

    Its catalog is in memory, for topics and ACL bindings that are staged as they change
    elsewhere. It has to be created inside a running loop. Raises SettingError for an
    assignor that is not installed.
    """
    loop = asyncio.get_running_loop()
    time = Timekeeping(steady_clock(), wall_clock, loop, loop)
    log = MemoryLog()
    flusher = Flusher(log, loop, threaded=False)
    catalog = Catalog(settings, (1,), _acls(authorizer))
    data = DataPlane(log, flusher, catalog, timekeeping=time, scheduler=loop)
    data.load()
    environment = coordinator_environment(settings, catalog, time)
    runtime = Runtime(environment, scheduler=loop, timekeeping=time)
    catalog.watch(TopicChanges(runtime, loop).add)
    secret = secrets.token_bytes()
    return _broker(
        settings,
        data,
        runtime,
        authorizer,
        cluster_id=cluster_id,
        secret=secret,
    )


def _broker(
    settings: Settings,
    data: DataPlane,
    runtime: Runtime,
    authorizer: Authorizer,
    *,
    cluster_id: str,
    secret: bytes,
) -> Broker:
    share_states = ShareStates(data, Slices(asyncio.get_running_loop()))
    runtime.share_state = share_states.handle
    share_partitions = SharePartitions(data, share_states)
    return Broker(
        settings=settings,
        log=data.log,
        flusher=data.flusher,
        catalog=data.catalog,
        data=data,
        runtime=runtime,
        transactions=TransactionPlane(data, runtime),
        authorizer=authorizer,
        acls=_acls(authorizer),
        fetch_sessions=FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            settings.max_incremental_fetch_session_cache_partitions,
            random_session_id,
        ),
        share_states=share_states,
        share_partitions=share_partitions,
        share_sessions=ShareSessions(
            share_partitions,
            settings.group_share_max_share_sessions,
            settings.max_incremental_fetch_session_cache_partitions,
        ),
        quotas=Quotas(settings, data.catalog.client_quotas),
        clock=steady_clock(),
        cluster_id=cluster_id,
        secret=secret,
    )


def _acls(authorizer: Authorizer | None) -> AclAuthorizer | None:
    return authorizer if isinstance(authorizer, AclAuthorizer) else None


def coordinator_environment(
    settings: Settings, catalog: Catalog, time: Timekeeping
) -> CoordinatorEnvironment:
    """Return the environment of coordinators in this process.

    Raises SettingError for an assignor that is not installed.
    """
    return CoordinatorEnvironment(
        settings,
        topics=catalog,
        configs=catalog.group_configs,
        assignors=configured(settings.group_consumer_assignors, _installed_assignors()),
        new_id=random_member_suffix,
        new_uuid=random_uuid,
        wall_ahead_ms=lambda: time.wall() - time.steady(),
    )


def _installed_assignors() -> Iterator[EntryPoint]:
    """Yield the assignors of installed packages."""
    from importlib.metadata import entry_points

    yield from entry_points(group=ENTRY_POINTS)


def _stored(log: Log, key: bytes, make: Callable[[], bytes]) -> bytes:
    """Return a value that is stored in the log; create and stage it if missing."""
    value = log.get(_SPACE, key)
    if value is None:
        value = make()
        log.put(_SPACE, key, value)
    return value


def _random_cluster_id() -> bytes:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=")
