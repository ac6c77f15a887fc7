"""kafka-python consumers of one group, each in a separate thread.

A kafka-python consumer joins inside poll(), which waits for the other members: members
that one thread polls in turn would wait for each other.
"""

from __future__ import annotations

import threading
from types import TracebackType

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from tests.support.waiting import eventually

POLL_MS = 50


class KafkaPythonMember(ConsumerRebalanceListener):
    """A member that reads into `seen` and commits often, before each rebalance too.

    Only its own thread touches the consumer; the test reads `owned` and `seen`.
    """

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self.records: list[tuple[int, int, bytes]] = []
        self.owned: frozenset[int] = frozenset()
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self.rebalances = 0
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=45_000,
            heartbeat_interval_ms=300,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            fetch_max_wait_ms=50,
            metrics_enabled=False,
            **config,
        )
        # A leader without metadata of the topic would assign nothing.
        assert self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic], listener=self)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Remove revoked partitions; kafka-python has committed their offsets."""
        self.owned -= {one.partition for one in revoked}

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Add assigned partitions; a cooperative rebalance names only the new ones."""
        self.rebalances += 1
        self.owned |= {one.partition for one in assigned}

    def leave(self) -> None:
        """Commit and leave the group; raise the error of the thread, if any."""
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the consumer does not stop"
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> KafkaPythonMember:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._poll()
        except BaseException as error:
            self.failure = error
        finally:
            self._consumer.close()

    def _poll(self) -> None:
        for where, records in self._consumer.poll(timeout_ms=POLL_MS).items():
            for record in records:
                self.records.append((where.partition, record.offset, record.value))


def wait_until_assigned(members: list[KafkaPythonMember], partitions: int) -> None:
    """Wait until each partition has one owner and every member owns some."""

    def is_assigned() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        owned = [member.owned for member in members]
        has_all = all(owned) and sum(map(len, owned)) == partitions
        return has_all and len(frozenset().union(*owned)) == partitions

    eventually(is_assigned, expected=f"{partitions} partitions assigned")
