"""Tables of the pipeline against what real clients did on a Coterie server.

The same comparisons on Apache Kafka are in tests/interop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.truth.checks import Check, checks_of
from tests.pipeline.truth.lakes import Lakes, Recorded, recorded, write_segments
from tests.pipeline.truth.recording import SETTINGS
from tests.support.server_process import start_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SOURCES = ("store", "kafka", "segments")


@pytest.fixture(scope="module")
def coterie(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorded]:
    """A recorded server and its lakes."""
    folder = tmp_path_factory.mktemp("coterie")
    data, segments = folder / "data", folder / "segments"
    with start_server(data=data, settings=SETTINGS) as server:
        lakes = Lakes(
            folder / "lakes",
            spark,
            {
                "store": f"store:{data}",
                "kafka": f"kafka:{server.bootstrap}",
                "segments": f"segments:{segments}",
            },
            frozenset({"store"}),
            lambda: write_segments(data, segments),
        )
        with recorded(server.bootstrap, lakes) as done:
            yield done


@pytest.mark.parametrize(
    ("source", "check"),
    [(source, check) for source in SOURCES for check in checks_of(source)],
)
def test_tables_equal_what_real_clients_did(
    coterie: Recorded, source: str, check: Check
) -> None:
    check(coterie.lakes[source], coterie.truth)
