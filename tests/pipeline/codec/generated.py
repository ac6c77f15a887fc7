"""A small generated log, as rows of the table `records`, all of them committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.pipeline.generator.generate import Order, generate
from tests.pipeline.codec.records import batch_of, row_of
from tests.pipeline.generator.reading import log_of, partitions_of


def generated(folder: Path) -> Iterator[Any]:
    """One batch a log partition."""
    generate(Order(folder=folder / "log", groups=24, commits=3_000, partitions=2))
    for each in partitions_of(folder / "log"):
        yield batch_of(
            row_of(
                record.offset,
                record.key,
                record.value,
                is_control=header.is_control,
                is_transactional=header.is_transactional,
                producer_id=header.producer_id,
            )
            for header, record in log_of(each)
        )
