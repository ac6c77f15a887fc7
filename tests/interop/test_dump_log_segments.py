"""`coterie pipeline decode` against Kafka's DumpLogSegments, on a generated log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.compression import Codec

from . import kafka_dump
from .kafka import JARS, dump_segments

pytestmark = pytest.mark.slow


@pytest.mark.fact("E22-05", "K-01")
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


def _decoded(
    capsys: pytest.CaptureFixture[str], files: list[Path], *words: str
) -> list[Any]:
    names = map(str, files)
    assert main(["pipeline", "decode", *names, "-o", "jsonl", *words]) == 0
    return list(_items(capsys.readouterr().out))


def _items(text: str) -> Iterator[Any]:
    return map(json.loads, text.splitlines())
