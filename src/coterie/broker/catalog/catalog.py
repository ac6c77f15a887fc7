"""The catalog: topics, configurations, quotas, users, ACLs, producer ids, transactions.

The catalog does no I/O. A decision returns entries and does not change the state. Only
`replay` changes the state that entries describe, both for new entries and at start. The
catalog is also the coordinator's `TopicView`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.catalog.client_quotas import ClientQuotas
from coterie.broker.catalog.configs import (
    TOPIC_CONFIGS,
    TopicSettings,
    broker_default,
    check_topic_config,
    topic_settings,
)
from coterie.broker.catalog.entries import Entry, EntryKind, no_room
from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.catalog.topics import (
    OFFSETS_TOPIC_REPLICAS,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    SHARE_STATE_PARTITIONS,
    SHARE_STATE_TOPIC,
    NewTopic,
    Topic,
    check_configs,
    check_partitions_per_request,
    check_topic_name,
    collision_key,
    is_usable_id,
    resolve_size,
)
from coterie.broker.catalog.transactions import Transactions
from coterie.broker.catalog.users import Users
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import OFFSETS_TOPIC, ProducerId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

PRODUCER_ID_BLOCK: Final = 1_000
"""The number of producer ids that one durable entry reserves."""


class TopicChange(NamedTuple):
    """A topic before and after a change; None before its creation and after its
    deletion."""

    before: Topic | None
    after: Topic | None


class Catalog:
    """The metadata of the broker.

    ACL bindings are stored in `acls`. Without an authorizer they have no effect but
    stay on disk, for a restart with an authorizer.
    """

    def __init__(
        self,
        settings: Settings,
        node_ids: Sequence[int] = (1,),
        acls: AclAuthorizer | None = None,
    ) -> None:
        self._static_settings = settings
        self._node_ids = tuple(node_ids)
        self._acls = acls
        self._listeners: list[Callable[[TopicChange], None]] = []
        self.group_configs = GroupConfigs(settings)
        self.users = Users()
        self.client_quotas = ClientQuotas()
        self.version = 0
        self.on_unknown_topic: Callable[[], None] | None = None
        """Called when a topic is requested that the catalog does not have, if the
        catalog is a copy of another cluster's and may be out of date."""
        self.clear()

    def clear(self) -> None:
        """Reset the state, before the catalog is loaded."""
        self.settings = self._static_settings
        self.topics: dict[TopicName, Topic] = {}
        self.broker_configs: dict[str, str] = {}
        self.transactions = Transactions()
        self._names: dict[TopicId, TopicName] = {}
        self._collisions: dict[str, TopicName] = {}
        self._topic_settings: dict[TopicName, TopicSettings] = {}
        self.partition_total = 0
        self.version += 1  # never a version of the topics before
        self.group_configs.clear()
        if self._acls is not None:
            self._acls.clear()
        self.users.clear()
        self.client_quotas.clear()
        self._unreserved_producer_id = 0
        self._next_producer_id = 0

    def partition_count(self, topic: TopicName) -> int | None:
        """Return the topic's number of partitions; None for an unknown topic."""
        found = self.topics.get(topic)
        if found is None:
            self._notice_unknown()
        return None if found is None else found.partition_count

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """Return the topic's id; None for an unknown topic."""
        found = self.topics.get(topic)
        if found is None:
            self._notice_unknown()
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """Return the topic's name; None for an unknown id."""
        name = self._names.get(topic_id)
        if name is None:
            self._notice_unknown()
        return name

    def _notice_unknown(self) -> None:
        if self.on_unknown_topic is not None:
            self.on_unknown_topic()

    @property
    def share_state_topic(self) -> Topic | None:
        """The topic of the states of share partitions; None before its first use."""
        return self.topics.get(SHARE_STATE_TOPIC)

    def topic_names(self) -> Iterable[TopicName]:
        """Return the names of all topics, internal ones included."""
        return self.topics.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """Return the racks of each partition's replicas, for the replicas that Metadata
        responses list; empty unless the nodes have racks."""
        racks = self.settings.broker_rack
        found = self.topics.get(topic)
        if found is not None and found.racks:
            return found.racks
        if not racks or found is None:
            return ()
        count = min(found.replication_factor, len(racks))
        return [
            {racks[(index + at) % len(racks)] for at in range(count)}
            for index in range(found.partition_count)
        ]

    def settings_of(self, topic: TopicName) -> TopicSettings:
        """Return the effective settings of an existing topic."""
        found = self._topic_settings.get(topic)
        if found is None:
            found = topic_settings(self.topics[topic].configs, self.settings)
            self._topic_settings[topic] = found
        return found

    def effective_config(self, topic: Topic, name: str) -> str:
        """Return a configuration's value for a topic: its own or the default."""
        own = topic.configs.get(name)
        if own is not None:
            return own
        return broker_default(TOPIC_CONFIGS[name], self.settings)

    def watch(self, listener: Callable[[TopicChange], None]) -> None:
        """Register `listener`, which is then called after each change of a topic."""
        self._listeners.append(listener)

    # Decisions: they return entries and do not change the state.

    def create_topic(self, new: NewTopic, fresh_id: TopicId) -> Entry:
        """Return the entry of a new topic.

        Raises ApiError INVALID_TOPIC_EXCEPTION for an invalid name or one that collides
        with another topic's, TOPIC_ALREADY_EXISTS, INVALID_CONFIG, the errors of
        `resolve_size`, and POLICY_VIOLATION at `max.partitions`.
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
        if new.name not in {OFFSETS_TOPIC, SHARE_STATE_TOPIC}:
            self._check_partition_total(partitions)
        topic = Topic(new.name, fresh_id, partitions, replicas, configs)
        return Entry(EntryKind.TOPIC, new.name, topic.to_value())

    def create_offsets_topic(self, fresh_id: TopicId) -> Entry:
        """Return the entry of `__consumer_offsets`, configured as in Kafka."""
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

    def create_share_state_topic(self, fresh_id: TopicId) -> Entry:
        """Return the entry of `__share_group_state`, configured as in Kafka."""
        new = NewTopic(
            name=SHARE_STATE_TOPIC,
            partition_count=SHARE_STATE_PARTITIONS,
            replication_factor=min(OFFSETS_TOPIC_REPLICAS, len(self._node_ids)),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "retention.ms": "-1",
                "segment.bytes": str(OFFSETS_TOPIC_SEGMENT_BYTES),
            },
        )
        return self.create_topic(new, fresh_id)

    def delete_topic(self, name: TopicName) -> Entry:
        """Return the entry that deletes a topic.

        Raises ApiError UNKNOWN_TOPIC_OR_PARTITION or TOPIC_DELETION_DISABLED.
        """
        if not self.settings.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        self._existing(name)
        return Entry(EntryKind.TOPIC, name, None)

    def add_partitions(self, name: TopicName, count: int) -> Entry:
        """Return the entry of a topic with `count` partitions in total.

        Raises ApiError UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS or
        POLICY_VIOLATION.
        """
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
        self._check_partition_total(count - topic.partition_count)
        grown = replace(topic, partition_count=count)
        return Entry(EntryKind.TOPIC, name, grown.to_value())

    def _check_partition_total(self, added_count: int) -> None:
        most = self.settings.max_partitions
        if self.partition_total + added_count > most:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"The topics have {self.partition_total} partitions, and {added_count} "
                f"more would exceed max.partitions ({most}): delete topics or raise "
                "the limit.",
            )

    def check_room(self, kind: EntryKind) -> None:
        """Raise ApiError POLICY_VIOLATION when no entry of a kind may be added."""
        counts = {
            EntryKind.ACL: 0 if self._acls is None else self._acls.binding_count,
            EntryKind.GROUP_CONFIG: len(self.group_configs.groups),
            EntryKind.SCRAM_CREDENTIAL: self.users.credential_count,
            EntryKind.TRANSACTION: len(self.transactions),
        }
        if counts[kind] >= self.settings.catalog_max_entries:
            raise no_room(kind)

    def set_topic_configs(
        self, name: TopicName, changes: Mapping[str, str | None]
    ) -> Entry:
        """Return the entry of a topic with changed configurations; None unsets one.

        Raises ApiError UNKNOWN_TOPIC_OR_PARTITION or INVALID_CONFIG.
        """
        topic = self._existing(name)
        configs = dict(topic.configs)
        for key, value in changes.items():
            if value is None:
                check_topic_config(key, TOPIC_CONFIGS[key].default)
                configs.pop(key, None)
            else:
                check_topic_config(key, value)
                configs[key] = value
        return Entry(EntryKind.TOPIC, name, replace(topic, configs=configs).to_value())

    def set_broker_config(self, name: str, value: str | None) -> Entry:
        """Return the entry of a dynamic configuration that `check_broker_config` has
        validated."""
        held = None if value is None else {"value": value}
        return Entry(EntryKind.BROKER_CONFIG, name, held)

    def allocate_producer_id(self) -> tuple[ProducerId, tuple[Entry, ...]]:
        """Return a new producer id, and entries that must be durable before its use.

        As in Kafka, the unused ids of a block are lost at a restart.
        """
        entries: tuple[Entry, ...] = ()
        if self._next_producer_id == self._unreserved_producer_id:
            bound = self._unreserved_producer_id + PRODUCER_ID_BLOCK
            entries = (Entry(EntryKind.PRODUCER_IDS, "next", {"next": bound}),)
        taken = self._next_producer_id
        self._next_producer_id += 1
        return taken, entries

    # Replay: the only changes of the state that entries describe.

    def replay(self, entry: Entry) -> None:
        """Apply an entry to the state."""
        match entry.kind:
            case EntryKind.TOPIC:
                self._replay_topic(entry.name, entry.value)
            case EntryKind.BROKER_CONFIG:
                self._replay_broker_config(entry.name, entry.value)
            case EntryKind.GROUP_CONFIG:
                self.group_configs.replay(entry.name, entry.value)
            case EntryKind.ACL:
                if self._acls is not None:
                    self._acls.replay(entry.name, entry.value)
            case EntryKind.SCRAM_CREDENTIAL:
                self.users.replay(entry.name, entry.value)
            case EntryKind.CLIENT_QUOTA:
                self.client_quotas.replay(entry.name, entry.value)
            case EntryKind.PRODUCER_IDS:
                assert entry.value is not None
                self._unreserved_producer_id = entry.value["next"]
            case EntryKind.TRANSACTION:
                self.transactions.replay(entry.name, entry.value)

    def finish_load(self) -> None:
        """Start a new block of producer ids, after all entries were replayed."""
        self._next_producer_id = self._unreserved_producer_id

    def _replay_topic(self, name: TopicName, value: Mapping[str, Any] | None) -> None:
        self.version += 1
        before = self.topics.pop(name, None)
        self._topic_settings.pop(name, None)
        if before is not None:
            self.partition_total -= before.partition_count
            del self._names[before.topic_id]
            # Another cluster's topics may collide, so the key may be gone.
            self._collisions.pop(collision_key(name), None)
        after = None if value is None else Topic.from_value(name, value)
        if after is not None:
            self.topics[name] = after
            self.partition_total += after.partition_count
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
