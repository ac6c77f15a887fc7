"""The HTTP port of a running node, with a server as the upstream cluster."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.gateway.node import Gateway
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.settings import Settings
from tests.broker.server.harness import ThreadServer

WAIT_S = 60
SHARDS = 4


def plan(server: ThreadServer, node: str) -> GatewayOptions:
    return GatewayOptions(
        settings=Settings(),
        bootstrap="{}:{}".format(*server.addresses[0]),
        name="monitored",
        node=node,
        host="127.0.0.1",
        port=0,
        advertised_host="127.0.0.1",
        partition_count=SHARDS,
        authorizer=AuthorizerKind.NONE,
        metrics_port=0,
    )


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def answer(port: int, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(get, port, path)


async def until_ready(port: int) -> dict[str, Any]:
    async with asyncio.timeout(WAIT_S):
        while True:
            code, text = await answer(port, "/ready")
            if code == 200:
                document: dict[str, Any] = json.loads(text)
                return document


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_running_node_reports_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        first = Gateway(plan(server, "a"))
        await first.start()
        port = first.view.nodes[0].status_port
        ready = await until_ready(port)
        assert ready["shards"] == {"active": SHARDS}
        status = json.loads((await answer(port, "/status"))[1])
        assert [each["shard"] for each in status["shards"]] == list(range(SHARDS))
        assert {each["epoch"] for each in status["shards"]} == {0}
        assert {each["end_offset"] for each in status["shards"]} == {1}
        assert status["cluster_id"] == server.server.assembly.broker.cluster_id
        code, text = await answer(port, "/metrics")
        assert code == 200
        assert f'coterie_gateway_shards{{phase="active"}} {SHARDS}.0' in text
        assert f"coterie_gateway_takeovers_total {SHARDS}.0" in text
        barriers = f"coterie_gateway_produce_seconds_count {SHARDS}.0"
        assert barriers in text
        assert (await answer(port, "/health"))[0] == 200

        words = f"gateway status --upstream {first.plan.bootstrap} --name monitored"
        assert await asyncio.to_thread(main, words.split()) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[3:5] == ["4", "4"]

        await first.stop()
    with pytest.raises(urllib.error.URLError):
        await answer(port, "/ready")
