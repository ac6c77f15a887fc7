"""Configurations of a group and its members, in a whole server."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigSource
from tests.broker.server.apis.in_process_server import InProcessServer

HEARTBEAT = "consumer.heartbeat.interval.ms"


def configure(server: InProcessServer, value: str, node: int = 0) -> None:
    change = m.IncrementalAlterableConfig(
        name=HEARTBEAT, config_operation=0, value=value
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name="g", configs=[change]
    )
    request = m.IncrementalAlterConfigsRequest(resources=[resource])
    [answer] = server.call(request, 1, node).responses
    assert (answer.error_code, answer.error_message) == (0, None)


def configured(server: InProcessServer) -> tuple[str, int]:
    resource = m.DescribeConfigsResource(
        resource_type=ConfigResourceType.GROUP,
        resource_name="g",
        configuration_keys=[HEARTBEAT],
    )
    [result] = server.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    [config] = result.configs
    return config.value, config.config_source


def heartbeat(server: InProcessServer, epoch: int, **fields: Any) -> Any:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, **fields
    )
    answer = server.call(request, 1)
    assert answer.error_code == 0
    return answer


def join(server: InProcessServer) -> int:
    """Join the group; return the heartbeat interval of the response."""
    interval_ms: int = heartbeat(
        server,
        0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    ).heartbeat_interval_ms
    return interval_ms


@pytest.mark.fact("D-20", "E21-01", "E21-02", "E21-02a")
def test_group_configs_do_not_depend_on_the_existence_of_the_group() -> None:
    with InProcessServer() as server:
        configure(server, "7000")
        wrote = [driven.written_sequence for driven in server.shards]
        configure(server, "8000")
        assert [driven.written_sequence for driven in server.shards] == wrote
        assert join(server) == 8_000
        heartbeat(server, -1)
        [deleted] = server.call(m.DeleteGroupsRequest(groups_names=["g"]), 2).results
        assert deleted.error_code == 0
        assert configured(server) == ("8000", ConfigSource.GROUP)
        assert join(server) == 8_000


@pytest.mark.fact("E21-08")
def test_the_next_heartbeat_response_has_a_changed_interval() -> None:
    with InProcessServer() as server:
        assert join(server) == 5_000
        assert heartbeat(server, 1).heartbeat_interval_ms == 5_000
        configure(server, "7000")
        assert heartbeat(server, 1).heartbeat_interval_ms == 7_000


def test_any_node_can_change_group_configs() -> None:
    with InProcessServer(node_count=3) as server:
        for node, value in enumerate(("6000", "7000", "8000")):
            configure(server, value, node)
            assert configured(server) == (value, ConfigSource.GROUP)


def test_groups_use_the_configs_of_a_catalog_reloaded_after_a_failed_flush() -> None:
    with InProcessServer() as server:
        configure(server, "7000")
        server.broker.data.load()
        assert join(server) == 7_000
