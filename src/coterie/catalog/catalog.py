"""The catalog: which topics there are, their configurations, and producer ids.

Pure state. A method that decides returns entries and changes nothing; `replay` is the
only thing that changes what the entries hold, in live traffic and at load alike. The
catalog is also the coordinator's `TopicView`. Transactions are in transactions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from coterie.catalog.entries import Entry, Kind
from coterie.catalog.group_configs import GroupConfigs
from coterie.catalog.topic_configs import (
    TOPIC_CONFIGS,
    TopicSettings,
    broker_default,
    check_topic_config,
    topic_settings,
)
from coterie.catalog.topics import (
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_REPLICAS,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    NewTopic,
    Topic,
    check_configs,
    check_partitions_per_request,
    check_topic_name,
    collision_key,
    is_usable_id,
    resolve_size,
)
from coterie.catalog.transactions import Transactions
from coterie.catalog.users import Users
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import ProducerId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

PRODUCER_ID_BLOCK: Final = 1_000
"""How many producer ids one durable entry sets apart."""


class TopicChange(NamedTuple):
    """A topic before and after a change: made if there was none, deleted if none is."""

    before: Topic | None
    after: Topic | None


class Follower(Protocol):
    """Who holds what entries of one kind say, as the catalog holds the others."""

    def clear(self) -> None:
        """Forget everything, to be loaded again."""

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply an entry."""


class Catalog:
    """What the broker knows of topics and producers.

    Bindings of access control lists are `acls`' to hold; without it they stay on disk,
    for the day when they count again.
    """

    def __init__(
        self,
        settings: Settings,
        node_ids: Sequence[int] = (1,),
        acls: Follower | None = None,
    ) -> None:
        self._static_settings = settings
        self._node_ids = tuple(node_ids)
        self._acls = acls
        self._listeners: list[Callable[[TopicChange], None]] = []
        self.group_configs = GroupConfigs(settings)
        self.users = Users()
        self.clear()

    def clear(self) -> None:
        """Forget everything, to be loaded again."""
        self.settings = self._static_settings
        self.topics: dict[TopicName, Topic] = {}
        self.broker_configs: dict[str, str] = {}
        self.transactions = Transactions()
        self._names: dict[TopicId, TopicName] = {}
        self._collisions: dict[str, TopicName] = {}
        self._topic_settings: dict[TopicName, TopicSettings] = {}
        self.version = 0
        self.group_configs.clear()
        if self._acls is not None:
            self._acls.clear()
        self.users.clear()
        self._unreserved_producer_id = 0
        self._next_producer_id = 0

    # What the coordinator and the data plane look up.

    def partition_count(self, topic: TopicName) -> int | None:
        """How many partitions the topic has; None when there is no such topic."""
        found = self.topics.get(topic)
        return None if found is None else found.partition_count

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """The topic's id; None when there is no such topic."""
        found = self.topics.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """The topic's name; None when no topic has that id."""
        return self._names.get(topic_id)

    def topic_names(self) -> Iterable[TopicName]:
        """Every topic there is, internal ones too (E14-09)."""
        return self.topics.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """The racks of each partition's replicas, as Metadata tells the replicas; empty
        unless the nodes have racks."""
        racks = self.settings.broker_rack
        found = self.topics.get(topic)
        if not racks or found is None:
            return ()
        count = min(found.replication_factor, len(racks))
        return [
            {racks[(index + at) % len(racks)] for at in range(count)}
            for index in range(found.partition_count)
        ]

    def settings_of(self, topic: TopicName) -> TopicSettings:
        """The configurations that act on a topic that exists."""
        found = self._topic_settings.get(topic)
        if found is None:
            found = topic_settings(self.topics[topic].configs, self.settings)
            self._topic_settings[topic] = found
        return found

    def effective_config(self, topic: Topic, name: str) -> str:
        """The value of a configuration on a topic, its own or the default."""
        own = topic.configs.get(name)
        if own is not None:
            return own
        return broker_default(TOPIC_CONFIGS[name], self.settings)

    def watch(self, listener: Callable[[TopicChange], None]) -> None:
        """Call `listener` after every later change of a topic."""
        self._listeners.append(listener)

    # Decisions: entries out, nothing changed.

    def create_topic(self, new: NewTopic, fresh_id: TopicId) -> Entry:
        """Make a topic.

        Raises ApiError INVALID_TOPIC_EXCEPTION for its name or one that collides with
        it, TOPIC_ALREADY_EXISTS, INVALID_CONFIG, and as `resolve_size` does.
        """
        assert is_usable_id(fresh_id), fresh_id.hex()
        check_topic_name(new.name)
        if new.name in self.topics:
            raise ApiError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists."
            )
        if new.name == "__cluster_metadata":
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Creation of internal topic __cluster_metadata is prohibited.",
            )
        if clash := self._collisions.get(collision_key(new.name)):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{new.name}' collides with existing topic: {clash}",
            )
        configs = check_configs(new.configs)
        partitions, replicas = resolve_size(
            new, self.settings.num_partitions, self._node_ids
        )
        topic = Topic(new.name, fresh_id, partitions, replicas, configs)
        return Entry(Kind.TOPIC, new.name, topic.to_value())

    def create_offsets_topic(self, fresh_id: TopicId) -> Entry:
        """Make `__consumer_offsets` as Kafka does (H-122)."""
        new = NewTopic(
            name=OFFSETS_TOPIC,
            partition_count=self.settings.offsets_topic_num_partitions,
            replication_factor=min(OFFSETS_TOPIC_REPLICAS, len(self._node_ids)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(OFFSETS_TOPIC_SEGMENT_BYTES),
            },
        )
        return self.create_topic(new, fresh_id)

    def delete_topic(self, name: TopicName) -> Entry:
        """Take a topic away. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION, or
        TOPIC_DELETION_DISABLED."""
        if not self.settings.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        self._existing(name)
        return Entry(Kind.TOPIC, name, None)

    def add_partitions(self, name: TopicName, count: int) -> Entry:
        """Let a topic have `count` partitions in all. Raises ApiError
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS or POLICY_VIOLATION."""
        topic = self._existing(name)
        if count == topic.partition_count:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic already has {count} partition(s).",
            )
        if count < topic.partition_count:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {topic.partition_count} "
                f"partition(s); {count} would not be an increase.",
            )
        check_partitions_per_request(count - topic.partition_count)
        grown = replace(topic, partition_count=count)
        return Entry(Kind.TOPIC, name, grown.to_value())

    def set_topic_configs(
        self, name: TopicName, changes: Mapping[str, str | None]
    ) -> Entry:
        """Set configurations of a topic, or with None go back to the default. Raises
        ApiError UNKNOWN_TOPIC_OR_PARTITION or INVALID_CONFIG."""
        topic = self._existing(name)
        configs = dict(topic.configs)
        for key, value in changes.items():
            if value is None:
                check_topic_config(key, TOPIC_CONFIGS[key].default)
                configs.pop(key, None)
            else:
                check_topic_config(key, value)
                configs[key] = value
        return Entry(Kind.TOPIC, name, replace(topic, configs=configs).to_value())

    def set_broker_config(self, name: str, value: str | None) -> Entry:
        """Change a setting while running; the caller has checked it may be."""
        held = None if value is None else {"value": value}
        return Entry(Kind.BROKER_CONFIG, name, held)

    def take_producer_id(self) -> tuple[ProducerId, tuple[Entry, ...]]:
        """A producer id never given out before, and what must be durable first.

        What a block has left is forgotten on restart, as in Kafka.
        """
        entries: tuple[Entry, ...] = ()
        if self._next_producer_id == self._unreserved_producer_id:
            bound = self._unreserved_producer_id + PRODUCER_ID_BLOCK
            entries = (Entry(Kind.PRODUCER_IDS, "next", {"next": bound}),)
        taken = self._next_producer_id
        self._next_producer_id += 1
        return taken, entries

    # Replay: the only thing that changes what the entries hold.

    def replay(self, entry: Entry) -> None:
        """Apply an entry."""
        match entry.kind:
            case Kind.TOPIC:
                self._replay_topic(entry.name, entry.value)
            case Kind.BROKER_CONFIG:
                self._replay_broker_config(entry.name, entry.value)
            case Kind.GROUP_CONFIG:
                self.group_configs.replay(entry.name, entry.value)
            case Kind.ACL:
                if self._acls is not None:
                    self._acls.replay(entry.name, entry.value)
            case Kind.SCRAM_CREDENTIAL:
                self.users.replay(entry.name, entry.value)
            case Kind.PRODUCER_IDS:
                assert entry.value is not None
                self._unreserved_producer_id = entry.value["next"]
            case Kind.TRANSACTION:
                self.transactions.replay(entry.name, entry.value)

    def loaded(self) -> None:
        """All kept entries are replayed: producer ids go on in a fresh block."""
        self._next_producer_id = self._unreserved_producer_id

    def _replay_topic(self, name: TopicName, value: Mapping[str, Any] | None) -> None:
        self.version += 1
        before = self.topics.pop(name, None)
        self._topic_settings.pop(name, None)
        if before is not None:
            del self._names[before.topic_id]
            del self._collisions[collision_key(name)]
        after = None if value is None else Topic.from_value(name, value)
        if after is not None:
            self.topics[name] = after
            self._names[after.topic_id] = name
            self._collisions[collision_key(name)] = name
        for listener in self._listeners:
            listener(TopicChange(before, after))

    def _replay_broker_config(self, name: str, value: Mapping[str, Any] | None) -> None:
        self.broker_configs.pop(name, None)
        if value is not None:
            self.broker_configs[name] = value["value"]
        changed = {
            key.replace(".", "_"): int(text)
            for key, text in self.broker_configs.items()
        }
        self.settings = replace(self._static_settings, **changed)  # type: ignore[arg-type]
        self._topic_settings.clear()

    def _existing(self, name: TopicName) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic
