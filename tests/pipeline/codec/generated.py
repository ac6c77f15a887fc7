"""A small generated log as rows of the table `records`, without aborted records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.testing.log_generator.generate import GeneratorOptions, generate
from tests.pipeline.codec.records import batch_of, row_of
from tests.testing.log_generator.generated_log import partition_folders, read_records


def generated(folder: Path) -> Iterator[Any]:
    """Yield an Arrow record batch for each log partition."""
    generate(
        GeneratorOptions(folder=folder / "log", groups=24, commits=3_000, partitions=2)
    )
    for each in partition_folders(folder / "log"):
        yield batch_of(
            row_of(
                record.offset,
                record.key,
                record.value,
                is_control=header.is_control,
                is_transactional=header.is_transactional,
                producer_id=header.producer_id,
            )
            for header, record in read_records(each)
        )
