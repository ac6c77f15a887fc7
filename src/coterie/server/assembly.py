"""Puts a broker together: the log, the data plane, the runtime and its loader.

Order matters once: when a flush fails, the catalog is read again before the shards are,
as they ask it about topics.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import AllowAll, Authorizer
from coterie.catalog.catalog import Catalog, TopicChange
from coterie.catalog.topics import OFFSETS_TOPIC, Topic
from coterie.coordinator.assignors.registry import ENTRY_POINTS, EntryPoint, configured
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.offsets.tombstones import DeletedTopic, TopicsDeleted
from coterie.coordinator.result import GroupConfigView, TopicView
from coterie.coordinator.shard import Shard
from coterie.errors import SettingError
from coterie.log.log import Log, LogPartition
from coterie.log.memory import MemoryLog
from coterie.runtime.clock import steady_clock
from coterie.runtime.data import DataPlane
from coterie.runtime.fetch_sessions import FetchSessions
from coterie.runtime.flusher import Flusher
from coterie.runtime.housekeeping import Housekeeping
from coterie.runtime.ids import fresh_session_id, fresh_topic_id
from coterie.runtime.loader import Loader
from coterie.runtime.runtime import Runtime
from coterie.runtime.shards import DrivenShard, Phase
from coterie.runtime.snapshots import Snapshots
from coterie.runtime.snapshotter import Snapshotter
from coterie.runtime.timers import Scheduler
from coterie.runtime.transactions import TransactionPlane
from coterie.server.broker import Broker
from coterie.settings import Settings
from coterie.types import LogOffset, TopicName

_SPACE: Final = "broker"
_CLUSTER_ID: Final = b"cluster.id"
_SECRET: Final = b"secret"


class RuntimeEnvironment:
    """What the runtime is given of its surroundings."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        data: DataPlane,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.topics: TopicView = catalog
        self.configs: GroupConfigView = catalog.group_configs
        self.assignors = configured(
            settings.group_consumer_assignors, _installed_assignors()
        )
        self.scheduler: Scheduler = loop
        self.clock = clock
        self.loader: Loader | None = None
        self.snapshotter: Snapshotter | None = None
        self._data = data

    def make_shard(self) -> Shard:
        """An empty shard."""
        return Shard(self.settings)

    def grew(self, where: LogPartition, size_bytes: int) -> None:
        """Wake who fetches `__consumer_offsets`, and see to snapshots."""
        self._data.internal_grew(where, size_bytes)
        assert self.snapshotter is not None
        self.snapshotter.consider()

    def load(self, driven: DrivenShard) -> None:
        """Fill an empty shard from the log in the background, then `activate` it."""
        assert self.loader is not None
        self.loader.load(driven)

    def hurry(self, driven: DrivenShard) -> None:
        """Load this one before others."""
        assert self.loader is not None
        self.loader.hurry(driven)


class Assembly:
    """A broker and what runs behind it. Made inside a running loop.

    Raises LogError when the log cannot be read, and SettingError for settings that do
    not fit these nodes.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        node_count: int = 1,
        authorizer: Authorizer | None = None,
    ) -> None:
        _check_racks(settings, node_count)
        loop = self._loop = asyncio.get_running_loop()
        self._changed_topics: set[TopicName] = set()
        self._created_topics: set[TopicName] = set()
        clock = steady_clock()
        flusher = Flusher(log, loop, threaded=not isinstance(log, MemoryLog))
        acls = authorizer if isinstance(authorizer, AclAuthorizer) else None
        catalog = Catalog(settings, range(1, node_count + 1), acls)
        data = DataPlane(log, flusher, catalog, clock=clock, scheduler=loop)
        flusher.on_failure(lambda _: data.reload())
        data.load()
        environment = RuntimeEnvironment(
            settings, catalog, data, loop=loop, clock=clock
        )
        runtime = Runtime(log, flusher, environment)
        snapshots = self._snapshots = Snapshots(log)
        self._loader = environment.loader = Loader(
            log,
            flusher,
            snapshots,
            loop=loop,
            activate=runtime.activate,
            failed=runtime.loading_failed,
        )
        self._snapshotter = environment.snapshotter = Snapshotter(
            snapshots, flusher, runtime.shards, loop
        )
        transactions = TransactionPlane(data, runtime)
        self._housekeeping = Housekeeping(data, transactions, self._compacts_before)
        self.broker = Broker(
            settings=settings,
            log=log,
            flusher=flusher,
            catalog=catalog,
            data=data,
            runtime=runtime,
            transactions=transactions,
            authorizer=authorizer or AllowAll(),
            acls=acls,
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, fresh_session_id
            ),
            clock=clock,
            cluster_id=_kept(log, _CLUSTER_ID, _fresh_cluster_id).decode(),
            secret=_kept(log, _SECRET, secrets.token_bytes),
        )

    def start(self) -> None:
        """Make what a new store needs, and begin to load. Raises LogError."""
        broker = self.broker
        topic = broker.data.ensure_offsets_topic(fresh_topic_id())
        broker.flusher.flush()
        broker.runtime.start(topic.topic_id, topic.partition_count)
        self._loader.run_slice()
        broker.catalog.watch(self._topic_changed)
        broker.transactions.start()
        self._housekeeping.start()

    def stop(self) -> None:
        """Make everything durable, with a snapshot, and close the log."""
        broker = self.broker
        self._housekeeping.stop()
        broker.flusher.flush()
        self._snapshotter.write_all()
        broker.runtime.stop()
        broker.flusher.flush()
        broker.flusher.close()
        broker.log.close()

    def _compacts_before(self, where: LogPartition) -> LogOffset | None:
        """A shard that starts from its snapshot needs every tombstone since then; one
        that is reading its log needs them all."""
        offsets_topic = self.broker.catalog.topics.get(OFFSETS_TOPIC)
        if offsets_topic is None or offsets_topic.topic_id != where.topic_id:
            return None
        if self.broker.runtime.shards[where.partition].phase is not Phase.ACTIVE:
            return 0
        return self._snapshots.replay_from(where.partition)

    def _topic_changed(self, change: TopicChange) -> None:
        """A topic's offsets go when the topic goes (E17-18), and whoever is subscribed
        to it looks again (E15-04)."""
        before, after = change
        topic = before or after
        assert topic is not None
        if after is None and topic.name != OFFSETS_TOPIC:
            gone = DeletedTopic(topic.name, topic.topic_id)
            self.broker.runtime.notify(TopicsDeleted((gone,)))
        if before is None or after is None or _is_other(before, after):
            self._tell_groups(topic.name, is_new=before is None)

    def _tell_groups(self, name: TopicName, *, is_new: bool) -> None:
        """Tell all shards in the next turn of the loop, once for all that changed in
        this one: a request may make hundreds of topics."""
        if not self._changed_topics:
            self._loop.call_soon(self._tell_shards)
        self._changed_topics.add(name)
        if is_new:
            self._created_topics.add(name)

    def _tell_shards(self) -> None:
        news = TopicsChanged(
            frozenset(self._changed_topics), frozenset(self._created_topics)
        )
        self._changed_topics.clear()
        self._created_topics.clear()
        self.broker.runtime.notify(news)


def _is_other(before: Topic, after: Topic) -> bool:
    """Whether consumers of the topic have to know; of its configurations, they do not.
    A topic that is made anew has another id (E15-07)."""
    return (before.topic_id, before.partition_count) != (
        after.topic_id,
        after.partition_count,
    )


def _installed_assignors() -> Iterator[EntryPoint]:
    """Those of packages that are installed; looked for when first asked."""
    from importlib.metadata import entry_points

    yield from entry_points(group=ENTRY_POINTS)


def _check_racks(settings: Settings, node_count: int) -> None:
    racks = settings.broker_rack
    if racks and len(racks) != node_count:
        raise SettingError(
            f"broker.rack names {len(racks)} racks, and there are {node_count} nodes: "
            "name one for each, in their order"
        )


def _kept(log: Log, key: bytes, make: Callable[[], bytes]) -> bytes:
    """What a store has for itself, made when it is new (staged then)."""
    found = log.get(_SPACE, key)
    if found is None:
        found = make()
        log.put(_SPACE, key, found)
    return found


def _fresh_cluster_id() -> bytes:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=")
