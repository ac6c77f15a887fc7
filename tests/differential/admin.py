"""Steps of an operator: describe, list, delete, configs, topics, coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.wire import messages as m
from tests.differential.steps import Step

if TYPE_CHECKING:
    from tests.differential.generate import Draw

_GROUP = 32
_TOPICS_SETTLE_MS = 150
_CONFIGS = {
    "consumer.session.timeout.ms": ("60000", "50000", "1", "x", None),
    "consumer.heartbeat.interval.ms": ("5000", "4000", "1", ""),
    "share.session.timeout.ms": ("60000", "45000", "1", "x", None),
    "share.heartbeat.interval.ms": ("5000", "1", ""),
    "streams.num.standby.replicas": ("0", "99"),
    "none": ("1",),
}


def draw(draw: Draw) -> Step:
    """Draw a request of an operator."""
    kinds = (_describe, _describe_consumer, _list, _delete, _find, _alter, _configs)
    topics = (_create, _delete_topic)
    weights = (5, 5, 2, 0.7, 1, 0.6, 0.6, 0.3, 0.15)
    build = draw.chance.choices((*kinds, *topics), weights)[0]
    request = build(draw)
    settle_ms = _TOPICS_SETTLE_MS if build in (_alter, *topics) else 0
    return Step("admin", request, draw.version(type(request)), settle_ms)


def probes() -> list[Step]:
    """Return requests that show the state of all groups of a sequence."""
    groups = ["%g1", "%g2"]
    return [
        Step("admin", m.DescribeGroupsRequest(groups=groups), 6),
        Step("admin", m.ConsumerGroupDescribeRequest(group_ids=groups), 1),
        Step("admin", m.ShareGroupDescribeRequest(group_ids=groups), 1),
        Step("admin", m.ListGroupsRequest(states_filter=[], types_filter=[]), 5),
    ]


def short_sessions(timeout_ms: int) -> list[Step]:
    """Return requests that give both groups short sessions."""
    values = {
        "consumer.session.timeout.ms": timeout_ms,
        "consumer.heartbeat.interval.ms": timeout_ms // 4,
        "share.session.timeout.ms": timeout_ms,
        "share.heartbeat.interval.ms": timeout_ms // 4,
    }
    return [
        Step(
            "admin",
            m.IncrementalAlterConfigsRequest(
                resources=[
                    m.IncrementalAlterConfigsResource(
                        resource_type=_GROUP,
                        resource_name=group,
                        configs=[
                            m.IncrementalAlterableConfig(name=name, value=str(value))
                            for name, value in values.items()
                        ],
                    )
                ]
            ),
            1,
            _TOPICS_SETTLE_MS,
        )
        for group in ("%g1", "%g2")
    ]


def _groups(draw: Draw) -> list[str]:
    return draw.chance.choices(
        ([draw.group], ["%g1", "%g2", "%none"], ["%g1", "%g1"], [""], []),
        (10, 4, 1, 0.5, 0.3),
    )[0]


def _describe(draw: Draw) -> Any:
    return m.DescribeGroupsRequest(
        groups=_groups(draw),
        include_authorized_operations=draw.chance.random() < 0.1,
    )


def _describe_consumer(draw: Draw) -> Any:
    return m.ConsumerGroupDescribeRequest(
        group_ids=_groups(draw),
        include_authorized_operations=draw.chance.random() < 0.1,
    )


def _list(draw: Draw) -> Any:
    chance = draw.chance
    states: tuple[list[str], ...] = (
        [],
        ["Stable"],
        ["empty", "Dead"],
        ["PreparingRebalance"],
        ["x"],
        [""],
    )
    types: tuple[list[str], ...] = (
        [],
        ["consumer"],
        ["Classic"],
        ["consumer", "classic"],
        ["Share"],
        ["x"],
    )
    return m.ListGroupsRequest(
        states_filter=chance.choice(states), types_filter=chance.choice(types)
    )


def _delete(draw: Draw) -> Any:
    return m.DeleteGroupsRequest(groups_names=_groups(draw))


def _find(draw: Draw) -> Any:
    chance = draw.chance
    return m.FindCoordinatorRequest(
        key=chance.choice((draw.group, "")),
        key_type=chance.choices((0, 1, 2, 3), (10, 4, 1, 1))[0],
        coordinator_keys=_groups(draw),
    )


def _alter(draw: Draw) -> Any:
    chance = draw.chance
    name = chance.choice(list(_CONFIGS))
    value = chance.choice(_CONFIGS[name])
    return m.IncrementalAlterConfigsRequest(
        resources=[
            m.IncrementalAlterConfigsResource(
                resource_type=_GROUP,
                resource_name=draw.group,
                configs=[
                    m.IncrementalAlterableConfig(
                        name=name,
                        config_operation=chance.choices((0, 1, 2, 9), (8, 4, 1, 1))[0],
                        value=value,
                    )
                ],
            )
        ],
        validate_only=chance.random() < 0.2,
    )


def _configs(draw: Draw) -> Any:
    keys: tuple[list[str] | None, ...] = (
        None,
        [],
        ["consumer.session.timeout.ms"],
        ["none"],
    )
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsResource(
                resource_type=_GROUP,
                resource_name=draw.group,
                configuration_keys=draw.chance.choice(keys),
            )
        ],
        include_synonyms=draw.chance.random() < 0.5,
        include_documentation=False,
    )


def _create(draw: Draw) -> Any:
    return m.CreateTopicsRequest(
        topics=[
            m.CreatableTopic(
                name="%t",
                num_partitions=draw.chance.choice((1, 3)),
                replication_factor=1,
            )
        ],
        timeout_ms=10_000,
        validate_only=draw.chance.random() < 0.1,
    )


def _delete_topic(draw: Draw) -> Any:
    return m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name="%t")], topic_names=["%t"], timeout_ms=10_000
    )
