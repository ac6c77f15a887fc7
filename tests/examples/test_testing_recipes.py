"""The recipes of the test kit pass, each in a pytest of its own as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "testing").glob("test_*.py"))
LIMIT_S = 120


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_passes(recipe: Path, tmp_path: Path) -> None:
    copy = tmp_path / recipe.name
    copy.write_bytes(recipe.read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "-o", "asyncio_mode=auto", copy.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_page_lists_every_recipe() -> None:
    page = (ROOT / "docs" / "testing" / "recipes.md").read_text()
    assert RECIPES
    assert [each.name for each in RECIPES if f"[{each.name}]" not in page] == []
