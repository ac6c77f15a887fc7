"""Fixtures: generated logs, and the replay of their groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.pipeline.gold.groups.replay import GroupHistory
from coterie.testing.log_generator.generate import (
    GeneratorOptions,
    generate,
    write_compacted,
)
from tests.pipeline.gold.groups.generated_log import (
    GeneratedLog,
    read_generated_log,
    replayed_groups,
)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratedLog]:
    """Two logs, each with a compacted copy."""
    generated = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("groups") / "log"
        order = GeneratorOptions(
            folder=folder, groups=34, commits=400, days=12, seed=seed, partitions=3
        )
        write_compacted(generate(order), folder / "compacted")
        generated.append(read_generated_log(folder))
    return generated


@pytest.fixture(scope="session", params=[0, 1])
def log(request: pytest.FixtureRequest, logs: list[GeneratedLog]) -> GeneratedLog:
    """Each of the two logs."""
    return logs[request.param]


@pytest.fixture(scope="session")
def folder(log: GeneratedLog) -> Path:
    """The folder of the log."""
    return log.folder


@pytest.fixture(scope="session")
def histories(log: GeneratedLog) -> dict[str, GroupHistory]:
    """The replayed history of each group."""
    return replayed_groups(log.records, log.names)
