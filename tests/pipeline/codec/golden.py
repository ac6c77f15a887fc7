"""Records written by the classes of Apache Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.codec.records import KeyValue

_FOLDER = Path(__file__).parents[2] / "broker" / "coordinator"


def golden() -> dict[str, KeyValue]:
    """Return the key and the value of each record by the record's name."""
    lines = [
        line.split("\t")
        for name in ("kafka_4_4_records.tsv", "kafka_4_4_consumer_records.tsv")
        for line in (_FOLDER / name).read_text().splitlines()
        if not line.startswith("#")
    ]
    return {
        name: (bytes.fromhex(key), bytes.fromhex(value) if value else None)
        for name, key, value in lines
    }


GOLDEN = golden()
