"""Configurations of a group live apart from the group itself, in a whole server."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire.config_kinds import ConfigSource, ResourceKind
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.apis.in_process import Office

HEARTBEAT = "consumer.heartbeat.interval.ms"


def configure(office: Office, value: str, node: int = 0) -> None:
    change = AlterableConfig(name=HEARTBEAT, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=ResourceKind.GROUP, resource_name="g", configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    [answer] = office.call(request, 1, node).responses
    assert (answer.error_code, answer.error_message) == (0, None)


def configured(office: Office) -> tuple[str, int]:
    resource = DescribeConfigsResource(
        resource_type=ResourceKind.GROUP,
        resource_name="g",
        configuration_keys=[HEARTBEAT],
    )
    [result] = office.call(DescribeConfigsRequest(resources=[resource]), 4).results
    [config] = result.configs
    return config.value, config.config_source


def heartbeat(office: Office, epoch: int, **said: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, **said
    )
    answer = office.call(request, 1)
    assert answer.error_code == 0
    return answer


def join(office: Office) -> int:
    """The interval that a member which joins is told."""
    interval_ms: int = heartbeat(
        office,
        0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    ).heartbeat_interval_ms
    return interval_ms


@pytest.mark.fact("E21-01", "E21-02", "E21-03", "D-20")
def test_they_come_before_the_group_and_survive_it() -> None:
    with Office() as office:
        configure(office, "7000")
        wrote = [driven.written_sequence for driven in office.shards]
        configure(office, "8000")
        assert [driven.written_sequence for driven in office.shards] == wrote
        assert join(office) == 8_000
        heartbeat(office, -1)
        [deleted] = office.call(DeleteGroupsRequest(groups_names=["g"]), 2).results
        assert deleted.error_code == 0
        assert configured(office) == ("8000", ConfigSource.GROUP)
        assert join(office) == 8_000


@pytest.mark.fact("E21-08")
def test_the_next_heartbeat_is_told_of_a_change() -> None:
    with Office() as office:
        assert join(office) == 5_000
        assert heartbeat(office, 1).heartbeat_interval_ms == 5_000
        configure(office, "7000")
        assert heartbeat(office, 1).heartbeat_interval_ms == 7_000


def test_any_node_changes_them() -> None:
    with Office(node_count=3) as office:
        for node, value in enumerate(("6000", "7000", "8000")):
            configure(office, value, node)
            assert configured(office) == (value, ConfigSource.GROUP)


def test_a_failed_flush_that_loads_the_catalog_again_is_seen_by_groups() -> None:
    with Office() as office:
        configure(office, "7000")
        office.broker.data.load()
        assert join(office) == 7_000
