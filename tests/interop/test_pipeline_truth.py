"""Tables of the pipeline against what real clients did on Apache Kafka.

The broker is one of its own: the pipeline reads copies of its segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.truth.checks import Check, Nameable, checks_of
from tests.pipeline.truth.kinds import KINDS
from tests.pipeline.truth.lakes import Lakes, Recorded, copy_segments, recorded
from tests.pipeline.truth.recording import SETTINGS

from .java_consumers import java_kinds
from .kafka import JARS, KafkaNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SOURCES = ("kafka", "segments")
NOT_COMMITTED = {"consumed", "also-expiring", "expiring"}
"""Topics without a commit that has their ID: only transactions, or a retention time."""


@pytest.fixture(scope="module")
def kafka(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorded]:
    """A recorded node and its lakes."""
    folder = tmp_path_factory.mktemp("kafka")
    jars = Path(os.environ[JARS])
    node = KafkaNode(
        jars,
        folder / "node",
        listeners={"PLAIN": "PLAINTEXT"},
        settings={name: str(value) for name, value in SETTINGS.items()},
    )
    with node:
        bootstrap = node.addresses["PLAIN"]
        segments = folder / "segments"
        lakes = Lakes(
            folder / "lakes",
            spark,
            {"kafka": f"kafka:{bootstrap}", "segments": f"segments:{segments}"},
            frozenset({"kafka"}),
            lambda: copy_segments(folder / "node" / "data", segments),
        )
        with recorded(bootstrap, lakes, (*KINDS, *java_kinds(jars))) as done:
            yield done


@pytest.mark.parametrize(
    ("source", "check"),
    [(source, check) for source in SOURCES for check in checks_of(source)],
)
def test_tables_equal_what_real_clients_did(
    kafka: Recorded, source: str, check: Check
) -> None:
    check(kafka.lakes[source], kafka.truth)


@pytest.mark.parametrize("source", SOURCES)
def test_every_topic_is_named(kafka: Recorded, source: str) -> None:
    nameable = Nameable(kafka.lakes[source], kafka.truth)
    assert nameable.topics >= kafka.truth.topic_ids.keys() - NOT_COMMITTED
