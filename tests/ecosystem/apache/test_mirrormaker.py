"""MirrorMaker 2 between two servers, with a kill of the server that it writes to."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.ecosystem.apache.processes import (
    JavaProcess,
    committed_values,
    create_topics,
    duplicates,
    produce,
)
from tests.support.server_process import ServerProcess, start_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.apache_tools]
MIRROR_MAKER: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
RECORDS: Final = 15_000
STEP_S: Final = 300.0


def properties_of(source: ServerProcess, target: ServerProcess) -> dict[str, str]:
    """Return the configuration of a mirror from `a` to `b`, in small requests."""
    factors = (
        "replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset-syncs.topic.replication.factor",
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
        "config.storage.replication.factor",
    )
    return {
        "clusters": "a, b",
        "a.bootstrap.servers": source.bootstrap,
        "b.bootstrap.servers": target.bootstrap,
        "a->b.enabled": "true",
        "a->b.topics": "orders",
        "b->a.enabled": "false",
        "tasks.max": "2",
        **dict.fromkeys(factors, "1"),
        "b.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "offset.flush.interval.ms": "1000",
        # Slow, so that a kill comes in the middle.
        "a.consumer.max.poll.records": "20",
        "a.consumer.auto.offset.reset": "earliest",
    }


def test_each_record_is_mirrored_once_when_the_target_is_killed(
    jars: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(start_server(settings=SETTINGS))
        data = tmp_path / "data"
        target = stack.enter_context(start_server(data=data, settings=SETTINGS))
        create_topics(source.bootstrap, "orders")
        produce(source.bootstrap, "orders", range(RECORDS))
        file = tmp_path / "mm2.properties"
        lines = [
            f"{key}={value}\n" for key, value in properties_of(source, target).items()
        ]
        file.write_text("".join(lines), encoding="utf-8")
        log = tmp_path / "mirrormaker.log"
        stack.enter_context(JavaProcess(jars, log, MIRROR_MAKER, str(file)))
        before = wait_for_records(target.bootstrap, 1)
        target.kill()
        again = stack.enter_context(
            start_server(data=data, settings=SETTINGS, listen=target.bootstrap)
        )
        values = wait_for_records(again.bootstrap, RECORDS)
        assert len(before) < RECORDS, "it was killed too late to show anything"
        assert duplicates(values) == []
        assert set(values) == {str(number) for number in range(RECORDS)}


def wait_for_records(bootstrap: str, count: int) -> list[str]:
    """Wait until the mirror has this many records at least; return their values."""
    return eventually(
        lambda: (
            values
            if len(values := committed_values(bootstrap, "a.orders")) >= count
            else []
        ),
        within_s=STEP_S,
        expected=f"{count} mirrored records",
    )
