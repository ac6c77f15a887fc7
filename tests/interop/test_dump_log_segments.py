"""`coterie pipeline decode` against Kafka's DumpLogSegments, on a generated log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import LogPartition
from coterie.cli.main import main
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.compression import Codec
from coterie.wire.record_batch import LogRecord, encode_batch

from . import kafka_dump
from .kafka import JARS, dump_segments

pytestmark = pytest.mark.slow


@pytest.mark.fact("K-01a")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_batch_and_record_equals_kafkas_dump(
    codec: Codec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "log"
    generate(
        GeneratorOptions(
            folder=folder, groups=40, commits=4_000, partitions=2, codec=codec
        )
    )
    files = sorted(folder.glob("__consumer_offsets-*/*.log"))
    text = dump_segments(Path(os.environ[JARS]), files)
    for theirs, ours in (
        (kafka_dump.batches(text), _decoded(capsys, files, "--batches")),
        (kafka_dump.records(text), _decoded(capsys, files)),
    ):
        expected = list(theirs)
        assert len(expected) == len(ours) > 1_000
        for expected_item, item in zip(expected, ours, strict=True):
            assert {key: item[key] for key in expected_item} == expected_item


def test_kafkas_dump_reads_the_segments_of_a_store(tmp_path: Path) -> None:
    where = LogPartition(bytes(range(16)), 3)
    log = JournalLog(tmp_path, journal_bytes=1 << 16, segment_bytes=2_000)
    log.create(where)
    written: list[int] = []
    for base in range(0, 60, 3):
        records = [
            LogRecord(base + at, 1_000 + base, b"key", b"v" * 50) for at in range(3)
        ]
        log.append(where, encode_batch(records))
        written += [base, base + 1, base + 2]
    log.flush()
    log.checkpoint()
    # Compaction writes the first segment again, to a file with another name.
    log.replace(where, 3, None)
    log.flush()
    log.close()
    files = sorted(tmp_path.glob("segments/AAECAwQFBgcICQoLDA0ODw-3/*.log"))
    assert files[0].name == f"{0:020}.1.log"
    assert len(files) > 2
    text = dump_segments(Path(os.environ[JARS]), files, decoder=False)
    found = [int(each) for each in re.findall(r"^\| offset: (\d+)", text, re.M)]
    assert found == [each for each in written if each not in {3, 4, 5}]
    assert "isvalid: false" not in text
    assert not re.search("(?i)mismatch|corrupt|invalid|exception|found", text)


def _decoded(
    capsys: pytest.CaptureFixture[str], files: list[Path], *words: str
) -> list[Any]:
    names = map(str, files)
    assert main(["pipeline", "decode", *names, "-o", "jsonl", *words]) == 0
    return list(_items(capsys.readouterr().out))


def _items(text: str) -> Iterator[Any]:
    return map(json.loads, text.splitlines())
