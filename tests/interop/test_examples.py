"""The operators' scripts of examples/, on Coterie and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.server.harness import ThreadServer
from tests.examples.operator_scripts import check_alert, check_clean_up, check_move

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_a_late_group_is_reported(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    await check_alert(bootstrap, name, tmp_path)


async def test_a_group_moves_from_coterie(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    with ThreadServer() as server:
        source = "{}:{}".format(*server.addresses[0])
        await check_move(source, bootstrap, name, tmp_path)


async def test_a_stale_group_is_planned_deleted_and_restored(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    await check_clean_up(bootstrap, name, tmp_path)
