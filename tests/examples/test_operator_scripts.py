"""The operators' scripts of examples/ on Coterie; tests/interop runs them on Kafka."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.server.harness import ThreadServer

from .operator_scripts import EXAMPLES, SCRIPTS, check_alert, check_clean_up, check_move

LINES_MAX = 80


@pytest.fixture(scope="module")
def bootstraps() -> Iterator[tuple[str, str]]:
    """The addresses of two clusters."""
    with ThreadServer() as one, ThreadServer() as two:
        yield "{}:{}".format(*one.addresses[0]), "{}:{}".format(*two.addresses[0])


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_late_group_is_reported(
    bootstraps: tuple[str, str], tmp_path: Path
) -> None:
    await check_alert(bootstraps[0], "alert", tmp_path)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_group_moves_to_another_cluster(
    bootstraps: tuple[str, str], tmp_path: Path
) -> None:
    await check_move(*bootstraps, "move", tmp_path)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_stale_group_is_planned_deleted_and_restored(
    bootstraps: tuple[str, str], tmp_path: Path
) -> None:
    await check_clean_up(bootstraps[0], "clean", tmp_path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts_are_short_and_use_two_packages(name: str) -> None:
    text = (EXAMPLES / name).read_text("utf-8")
    assert len(text.splitlines()) < LINES_MAX
    used = {
        node.module if node.module != "coterie" else f"coterie.{alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cot")
        for alias in node.names
    }
    assert used == {"coterie.client", "coterie.operations"}
