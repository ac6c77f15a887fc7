"""Broadcast changes of the catalog's topics to the shards of the coordinator."""

from __future__ import annotations

from coterie.broker.catalog.catalog import TopicChange
from coterie.broker.catalog.topics import Topic
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.system import Scheduler
from coterie.types import OFFSETS_TOPIC, TopicName


class TopicChanges:
    """The broadcast of topic changes to all shards.

    Changes of one loop iteration are broadcast together in the next: one request can
    create or delete thousands of topics, and each broadcast searches all groups.
    """

    def __init__(self, runtime: Runtime, scheduler: Scheduler) -> None:
        self._runtime = runtime
        self._scheduler = scheduler
        self._changed: set[TopicName] = set()
        self._created: set[TopicName] = set()
        self._deleted: list[DeletedTopic] = []

    def add(self, change: TopicChange) -> None:
        """Add a change of the catalog.

        A deleted topic's committed offsets are deleted; groups that subscribe
        to a changed topic refresh their metadata.
        """
        before, after = change
        topic = before or after
        assert topic is not None
        if after is None and topic.name != OFFSETS_TOPIC:
            self._deleted.append(DeletedTopic(topic.name, topic.topic_id))
        elif before is None and self._deleted:
            # A commit to a new topic of the same name has no id to tell them apart.
            self._broadcast_deleted()
        if before is None or after is None or _affects_assignment(before, after):
            if not self._changed:
                self._scheduler.call_soon(self._broadcast)
            self._changed.add(topic.name)
            if before is None:
                self._created.add(topic.name)

    def _broadcast_deleted(self) -> None:
        if self._deleted:
            deleted, self._deleted = tuple(self._deleted), []
            self._runtime.broadcast(TopicsDeleted(deleted))

    def _broadcast(self) -> None:
        self._broadcast_deleted()
        event = TopicsChanged(frozenset(self._changed), frozenset(self._created))
        self._changed.clear()
        self._created.clear()
        self._runtime.broadcast(event)


def _affects_assignment(before: Topic, after: Topic) -> bool:
    """Return whether the partitions or the racks of their replicas changed.

    Configurations do not matter; a topic that was deleted and created again has another
    id.
    """
    return (before.topic_id, before.partition_count, before.racks) != (
        after.topic_id,
        after.partition_count,
        after.racks,
    )
