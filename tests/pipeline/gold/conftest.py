"""Fixtures of the gold tests: a log generated once."""

from __future__ import annotations

import pytest

from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.compression import Codec
from tests.pipeline.gold.generated_silver import GeneratedSilver


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> GeneratedSilver:
    """Twenty days of forty groups."""
    folder = tmp_path_factory.mktemp("story") / "log"
    order = GeneratorOptions(
        folder=folder,
        groups=40,
        commits=6_000,
        days=20,
        seed=3,
        partitions=4,
        codec=Codec.LZ4,
    )
    generate(order)
    return GeneratedSilver(folder)
