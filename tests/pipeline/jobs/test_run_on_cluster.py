"""Runs on a Coterie server: lag agrees with the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.all_tables import GOLD
from coterie.types import TopicPartition
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.pipeline.jobs.lakes import IN_PROCESS, lake_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BY_NAME = 12
GOLDS = tuple(
    GOLD[name]
    for name in (
        "topic_names",
        "group_history",
        "partition_ownership_history",
        "offset_commit_history",
        "lag_history",
    )
)
T0 = TopicPartition("t", 0)


def test_the_lag_of_an_idle_topic_is_that_of_the_newest_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ThreadServer() as server:
        address = "{}:{}".format(*server.addresses[0])
        source = open_source(f"kafka:{address}")
        job = Job(
            start_spark=lambda: spark,
            lake=lake_at(tmp_path / "lake", source),
            source=source,
            limits=IN_PROCESS,
            gold=GOLDS,
        )

        def newest() -> dict[str, Any]:
            run_once(job)
            rows = job.lake.read("lag_history").sort_by("sample_ts").to_pylist()
            assert {row["group_id"] for row in rows} == {"g"}
            found: dict[str, Any] = rows[-1]
            return found

        with SyncAdmin(address, OPTIONS) as admin, server.client() as client:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
            client.call(produce_request(batch_of(b"a"), topic="t"), BY_NAME)
            for offset in (0, 1):
                admin.group_offsets.alter("g", {T0: CommittedOffset(offset)}).all()
                row = newest()
                assert (row["log_end_offset"], row["lag"]) == (1, 1 - offset)
