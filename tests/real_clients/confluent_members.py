"""confluent-kafka consumers of one group, all polled by the thread of the test.

librdkafka sends heartbeats in threads of its own: polling members in turn is enough for
any number of them, and the order of events in a test is deterministic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.waiting import DEADLINE_S

POLL_S = 0.02
CLASSIC_TIMEOUTS: Final = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 300}
"""No session ends on a busy machine, and clients learn of a rebalance soon."""


class ReadRecord(NamedTuple):
    """A record that a consumer has read."""

    partition: int
    offset: int
    value: bytes


def consumer_settings(
    bootstrap: str, group: str, **config: object
) -> dict[str, object]:
    """Return settings of a consumer that reads from the start, without auto commit.

    `config` has names with underscores for dots; a value of None removes a setting.
    The consumer protocol has no timeouts: librdkafka refuses them (KIP-848).
    """
    custom = {key.replace("_", "."): value for key, value in config.items()}
    is_classic = custom.get("group.protocol", "classic") == "classic"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        **(CLASSIC_TIMEOUTS if is_classic else {}),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        **custom,
    }
    return {key: value for key, value in settings.items() if value is not None}


class ConfluentMember:
    """A consumer that lists its assignments, revocations and the records it read."""

    def __init__(
        self, bootstrap: str, group: str, topics: Iterable[str], **config: object
    ) -> None:
        self.commits = True
        self.owned: frozenset[int] = frozenset()
        self.records: list[ReadRecord] = []
        self.assigned: list[frozenset[int]] = []
        self.revoked: list[frozenset[int]] = []
        self.lost: list[frozenset[int]] = []
        self.consumer = Consumer(consumer_settings(bootstrap, group, **config))
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; a name that begins with ^ is a regular expression."""
        self.consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def poll(self) -> ReadRecord | None:
        """Poll once; return the record that was read, if any."""
        message: Message | None = self.consumer.poll(POLL_S)
        if message is None:
            return None
        if (error := message.error()) is not None:
            assert error.retriable() or not error.fatal(), error
            return None
        partition, offset, value = (
            message.partition(),
            message.offset(),
            message.value(),
        )
        assert partition is not None
        assert offset is not None
        assert value is not None
        record = ReadRecord(partition, offset, bytes(value))
        self.records.append(record)
        return record

    def poll_until_error(self) -> KafkaError:
        """Poll until the consumer reports an error, and return it."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = self.consumer.poll(POLL_S)
            if message is not None and (error := message.error()) is not None:
                return error
        raise AssertionError(f"no error within {DEADLINE_S:.0f} s")

    def commit(self) -> None:
        """Commit what was read, if anything was."""
        if not self.commits:
            return
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def leave(self) -> None:
        """Commit and leave the group."""
        self.commit()
        # librdkafka may refuse the commit of the last revocation while it closes
        # (_DESTROY); nothing is read from here on.
        self.commits = False
        self.consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned.append(frozenset(each.partition for each in partitions))
        self.owned |= self.assigned[-1]

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked.append(frozenset(each.partition for each in partitions))
        self.owned -= self.revoked[-1]
        self.commit()  # the next owner continues at this offset

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost.append(frozenset(each.partition for each in partitions))
        self.owned -= self.lost[-1]  # no commit: another member may own them


class ConfluentGroup:
    """Members of one group; `records` has the records of all members as read."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._config = config
        self.members: list[ConfluentMember] = []
        self.records: list[ReadRecord] = []

    def join(self, **config: object) -> ConfluentMember:
        """Add a member; it joins while the group is polled."""
        config = {**self._config, **config}
        member = ConfluentMember(self._bootstrap, self._group, [self._topic], **config)
        self.members.append(member)
        return member

    def leave(self, member: ConfluentMember) -> None:
        """Commit and remove a member."""
        self.members.remove(member)
        member.leave()

    def poll_until(
        self, condition: Callable[[], bool], *, within_s: float = DEADLINE_S
    ) -> None:
        """Poll all members in turn until the condition holds.

        Fails when a partition has two owners at any time.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            for member in self.members:
                if (record := member.poll()) is not None:
                    self.records.append(record)
                self.check_owners()
            if time.monotonic() > deadline:
                owned = [sorted(member.owned) for member in self.members]
                raise AssertionError(
                    f"not within {within_s:.0f} s; owned {owned}, "
                    f"{len(self.records)} read"
                )

    def poll_until_assigned(
        self, partitions: int, *, within_s: float = DEADLINE_S
    ) -> None:
        """Poll until each partition has one owner and every member owns some."""

        def is_assigned() -> bool:
            owned = [member.owned for member in self.members]
            has_all = all(owned) and sum(map(len, owned)) == partitions
            return has_all and len(frozenset().union(*owned)) == partitions

        self.poll_until(is_assigned, within_s=within_s)

    def check_owners(self) -> None:
        """Check that no partition has two owners."""
        owned = [member.owned for member in self.members]
        assert sum(map(len, owned)) == len(frozenset().union(*owned)), owned

    def offsets_read(self) -> dict[int, list[int]]:
        """Return the offsets read, by partition, in the order of reading."""
        offsets: dict[int, list[int]] = {}
        for record in self.records:
            offsets.setdefault(record.partition, []).append(record.offset)
        return offsets

    def close(self) -> None:
        """Commit and remove all members."""
        while self.members:
            self.leave(self.members[0])
