"""Generated logs whose groups are replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.pipeline.generator.compacted import write_compacted
from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.gold.groups.fold import Folded
from tests.pipeline.gold.groups.replaying import Made, made_of, replayed_groups


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """Two logs, and beside each what compaction left of it."""
    found = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("groups") / "log"
        order = Order(
            folder=folder, groups=34, commits=400, days=12, seed=seed, partitions=3
        )
        write_compacted(generate(order), folder / "compacted")
        found.append(made_of(folder))
    return found


@pytest.fixture(scope="session", params=[0, 1])
def log(request: pytest.FixtureRequest, logs: list[Made]) -> Made:
    """Each of them."""
    return logs[request.param]


@pytest.fixture(scope="session")
def made(log: Made) -> Path:
    """Its folder."""
    return log.folder


@pytest.fixture(scope="session")
def found(log: Made) -> dict[str, Folded]:
    """What the replay says of each group."""
    return replayed_groups(log.records, log.names)
