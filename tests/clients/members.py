"""confluent-kafka consumers of one group, all polled by the test's own thread.

librdkafka keeps sessions alive in threads of its own, so polling in turn is enough for
any number of members, and what a test sees happens in one order.
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

from .waiting import DEADLINE_S

POLL_S = 0.02
CLASSIC_TIMEOUTS: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}


class Seen(NamedTuple):
    """One record as a consumer got it."""

    partition: int
    offset: int
    value: bytes


def settings_of(bootstrap: str, group: str, **config: object) -> dict[str, object]:
    """Settings of a consumer that reads from the start; only its application commits.

    What is None is left to the library.
    `group_protocol="consumer"` leaves the timeouts to the broker, as KIP-848 does and
    librdkafka insists.
    """
    wanted = {key.replace("_", "."): value for key, value in config.items()}
    speaks_classic = wanted.get("group.protocol", "classic") == "classic"
    said = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        **(CLASSIC_TIMEOUTS if speaks_classic else {}),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        **wanted,
    }
    return {key: value for key, value in said.items() if value is not None}


class Member:
    """A consumer that notes what it was given and what it read."""

    def __init__(
        self, bootstrap: str, group: str, topics: Iterable[str], **config: object
    ) -> None:
        self.commits = True
        self.owned: frozenset[int] = frozenset()
        self.seen: list[Seen] = []
        self.assigned: list[frozenset[int]] = []
        self.revoked: list[frozenset[int]] = []
        self.lost: list[frozenset[int]] = []
        self.consumer = Consumer(settings_of(bootstrap, group, **config))
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics, and whatever matches those that begin with ^."""
        self.consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def poll(self) -> Seen | None:
        """Take one record, or let the group go on for a moment."""
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
        record = Seen(partition, offset, bytes(value))
        self.seen.append(record)
        return record

    def until_error(self) -> KafkaError:
        """Poll until the consumer reports an error, and return it."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = self.consumer.poll(POLL_S)
            if message is not None and (error := message.error()) is not None:
                return error
        raise AssertionError("no error came")

    def commit(self) -> None:
        """Commit what it has read; nothing read is nothing to commit."""
        if not self.commits:
            return
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def leave(self) -> None:
        """Commit and leave the group, as a well-behaved application does."""
        self.commit()
        # Nothing is read from here on; and while librdkafka closes it may refuse the
        # commit of the last revocation (_DESTROY).
        self.commits = False
        self.consumer.close()

    def _on_assign(self, consumer: Consumer, those: list[TopicPartition]) -> None:
        self.assigned.append(frozenset(one.partition for one in those))
        self.owned |= self.assigned[-1]

    def _on_revoke(self, consumer: Consumer, those: list[TopicPartition]) -> None:
        self.revoked.append(frozenset(one.partition for one in those))
        self.owned -= self.revoked[-1]
        self.commit()  # so that the next owner goes on exactly there

    def _on_lost(self, consumer: Consumer, those: list[TopicPartition]) -> None:
        self.lost.append(frozenset(one.partition for one in those))
        self.owned -= self.lost[-1]  # somebody else's by now: too late for a commit


class Crew:
    """Members of one group; `seen` is what all of them read, in the order they did."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._config = config
        self.members: list[Member] = []
        self.seen: list[Seen] = []

    def join(self, **config: object) -> Member:
        """One more member; it joins while the crew is polled."""
        wanted = {**self._config, **config}
        member = Member(self._bootstrap, self._group, [self._topic], **wanted)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """That member leaves in good order."""
        self.members.remove(member)
        member.leave()

    def poll_until(
        self, condition: Callable[[], bool], *, within_s: float = DEADLINE_S
    ) -> None:
        """Poll all members in turn until the condition holds.

        All the time no partition may have two owners.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            for member in self.members:
                if (record := member.poll()) is not None:
                    self.seen.append(record)
                self.check_owners()
            if time.monotonic() > deadline:
                owned = [sorted(member.owned) for member in self.members]
                raise AssertionError(
                    f"not within {within_s:.0f} s; owned {owned}, {len(self.seen)} read"
                )

    def poll_until_shared(
        self, partitions: int, *, within_s: float = DEADLINE_S
    ) -> None:
        """Poll until each partition has one owner and every member owns some."""

        def shared() -> bool:
            owned = [member.owned for member in self.members]
            everybody = all(owned) and sum(map(len, owned)) == partitions
            return everybody and len(frozenset().union(*owned)) == partitions

        self.poll_until(shared, within_s=within_s)

    def check_owners(self) -> None:
        """No partition has two owners."""
        owned = [member.owned for member in self.members]
        assert sum(map(len, owned)) == len(frozenset().union(*owned)), owned

    def offsets_read(self) -> dict[int, list[int]]:
        """By partition, the offsets in the order the crew read them."""
        offsets: dict[int, list[int]] = {}
        for record in self.seen:
            offsets.setdefault(record.partition, []).append(record.offset)
        return offsets

    def close(self) -> None:
        """Everybody leaves."""
        while self.members:
            self.leave(self.members[0])
