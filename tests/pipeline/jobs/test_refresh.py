"""The commit of a refresh, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs import refresh
from coterie.pipeline.lake.lake import Lake
from tests.pipeline.lake.test_lake import add, offsets_of


def test_a_table_that_a_step_creates_during_a_refresh_stays(tmp_path: Path) -> None:
    lake = Lake.open_or_create(tmp_path / "lake", "segments:log")
    no_session: Any = None
    builder = refresh._Builder(
        no_session,
        lake,
        GoldSettings(),
        lake.next_step(),
        lake.version,
        dict(lake.version.tables),
    )
    add(lake, 1)
    builder.commit({})
    assert offsets_of(lake) == [1]
    assert offsets_of(Lake.open_to_write(tmp_path / "lake")) == [1]
