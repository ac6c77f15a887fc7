"""The report of the example lake."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.report.page import render
from tests.pipeline.lakes import AS_OF, make_lake
from tests.pipeline.story import story

MADE = AS_OF + timedelta(minutes=5)


@pytest.fixture(scope="session")
def story_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("story") / "lake", story())


@pytest.fixture(scope="session")
def report(story_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(render(Lake.open(story_lake), MADE), "utf-8")
    return page
