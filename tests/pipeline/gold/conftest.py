"""What tests of gold tables share: a log that was generated once."""

from __future__ import annotations

import pytest

from coterie.pipeline.generator.generate import Order, generate
from coterie.wire.compression import Codec
from tests.pipeline.gold.generated import Story


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A month of forty groups."""
    folder = tmp_path_factory.mktemp("story") / "log"
    order = Order(
        folder=folder,
        groups=40,
        commits=6_000,
        days=20,
        seed=3,
        partitions=4,
        codec=Codec.LZ4,
    )
    generate(order)
    return Story(folder)
