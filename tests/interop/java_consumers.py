"""Groups of Apache Kafka's console consumer, as kinds of recorded groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import ConsumerGroupState

from tests.pipeline.truth.journal import LEFT, Commit, Session, Span, now
from tests.pipeline.truth.kinds import Kind
from tests.pipeline.truth.recorder import Recorder
from tests.real_clients.confluent_admin import admin_client, describe_group, produce
from tests.support.waiting import eventually

from .kafka import START_S, java_command

_TOOL: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_RECORDS: Final = 10


def java_kinds(jars: Path) -> tuple[Kind, ...]:
    """Return a kind of each protocol."""

    def kind(protocol: str) -> Kind:
        def run(r: Recorder) -> Iterator[None]:
            topic = r.topic(f"for-java-{protocol}", 2, records=_RECORDS)
            yield
            _consume(r, jars, protocol, topic)
            yield

        return run

    return kind("classic"), kind("consumer")


def _consume(r: Recorder, jars: Path, protocol: str, topic: str) -> None:
    """Consume a topic and one more record; the tool commits when it closes."""
    group, client_id = f"java-{protocol}", f"java-{protocol}-a"
    properties = {
        "client.id": client_id,
        "group.protocol": protocol,
        # The only commit is the one at the end.
        "auto.commit.interval.ms": 600_000,
    }
    words = [
        f"--consumer-property={name}={value}" for name, value in properties.items()
    ]
    command = [
        *java_command(jars, "error"),
        _TOOL,
        f"--bootstrap-server={r.bootstrap}",
        f"--topic={topic}",
        f"--group={group}",
        "--from-beginning",
        f"--max-messages={2 * _RECORDS + 1}",
        *words,
    ]
    offsets = {(topic, 0): _RECORDS + 1, (topic, 1): _RECORDS}
    began_s = now()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        owned_s = _wait_until_stable(r, group, len(offsets))
        r.journal.assigned(group, client_id, offsets, owned_s)
        ended_s = now()
        r.journal.revoked(group, client_id, offsets, ended_s)
        produce(r.bootstrap, topic, {0: [b"v"]})
        assert process.wait(START_S) == 0
    finally:
        process.kill()
    span = Span(ended_s, now())
    r.journal.committed(
        Commit(group, *key, offset, span, client_id) for key, offset in offsets.items()
    )
    if protocol == "consumer":
        r.journal.groups_by_id.add(group)
    began = Span(began_s, owned_s)
    r.journal.session(Session(group, client_id, None, began, span, LEFT))
    r.wait_for_state(group, ConsumerGroupState.EMPTY)
    r.journal.rebalanced(group, "first", "became_empty")


def _wait_until_stable(r: Recorder, group: str, partitions: int) -> float:
    """Wait until the broker says that a member owns the partitions; return the time."""
    admin = admin_client(r.bootstrap)

    def is_stable() -> bool:
        described = describe_group(admin, group)
        owned = [len(each.assignment.topic_partitions) for each in described.members]
        return described.state == ConsumerGroupState.STABLE and owned == [partitions]

    eventually(is_stable, within_s=START_S, expected=f"a member in {group}")
    return now()
