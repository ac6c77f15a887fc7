"""Tables of the pipeline against what real clients did on Apache Kafka.

The broker is one of its own: the pipeline reads copies of its segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.truth.checks import checks_of, committed_offsets
from tests.pipeline.truth.kinds import KINDS
from tests.pipeline.truth.lakes import Lakes, Recorded, copy_segments, recorded
from tests.pipeline.truth.readers import READERS, current_offsets
from tests.pipeline.truth.recording import SETTINGS

from .java_consumers import java_kinds
from .kafka import JARS, KafkaNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


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


def test_the_pipeline_equals_what_real_clients_did(
    kafka: Recorded, subtests: pytest.Subtests
) -> None:
    """Compare all tables in one test, so that two workers do not record twice."""
    for source, tables in kafka.lakes.items():
        for check in checks_of(source):
            with subtests.test(source=source, check=check.__name__):
                check(tables, kafka.truth)
        for name, reader in READERS.items():
            with subtests.test(source=source, reader=name):
                found = current_offsets(reader, kafka.folder / source)
                assert found == committed_offsets(kafka.truth)
