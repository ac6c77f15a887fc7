"""One process that presents itself as three nodes: look-ups and leaders are real."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from .admin import (
    ANSWER_S,
    admin_of,
    alter_offsets,
    committed_offsets,
    create_topic,
    produce,
)
from .members import Crew
from .process import ServerProcess

PARTITIONS = 6
GROUPS = 12


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the first of three nodes."""
    arguments = ("--memory", "--nodes", "3")
    quick = ("--set", "group.initial.rebalance.delay.ms=100")
    server = ServerProcess(tmp_path_factory.mktemp("nodes"), *arguments, *quick)
    yield server.address
    server.stop()


@pytest.fixture
def admin(three_nodes: str) -> AdminClient:
    """An admin client that knows one of the nodes."""
    return admin_of(three_nodes)


def test_every_node_leads_a_share_of_the_partitions(
    admin: AdminClient, three_nodes: str, name: str
) -> None:
    create_topic(three_nodes, name, partitions=PARTITIONS)
    found = admin.list_topics(name, timeout=ANSWER_S)
    assert len(found.brokers) == 3
    leaders = [one.leader for one in found.topics[name].partitions.values()]
    assert sorted(leaders) == sorted([*found.brokers, *found.brokers])


def test_a_group_reads_from_every_leader(three_nodes: str, name: str) -> None:
    create_topic(three_nodes, name, partitions=PARTITIONS)
    produce(three_nodes, name, {p: [b"%d" % p] * 5 for p in range(PARTITIONS)})
    with contextlib.closing(Crew(three_nodes, name, name)) as members:
        members.join()
        members.join()
        members.poll_until(lambda: len(members.seen) == 5 * PARTITIONS)
    assert committed_offsets(three_nodes, name) == {
        (name, p): 5 for p in range(PARTITIONS)
    }


@pytest.mark.fact("E28-06")
def test_groups_of_every_coordinator_are_found_and_deleted(
    admin: AdminClient, three_nodes: str, name: str
) -> None:
    create_topic(three_nodes, name, partitions=1)
    groups = [f"{name}-{number}" for number in range(GROUPS)]
    for group in groups:
        alter_offsets(three_nodes, group, {(name, 0): 1})
    described = admin.describe_consumer_groups(groups)
    coordinators = {f.result(ANSWER_S).coordinator.id for f in described.values()}
    assert len(coordinators) == 3
    listed = admin.list_consumer_groups().result(ANSWER_S)
    assert not listed.errors
    assert set(groups) <= {one.group_id for one in listed.valid}
    for future in admin.delete_consumer_groups(groups).values():
        future.result(ANSWER_S)
    assert all(committed_offsets(three_nodes, group) == {} for group in groups)


def test_offsets_of_many_groups_are_asked_of_the_right_coordinators(
    three_nodes: str, name: str
) -> None:
    create_topic(three_nodes, name, partitions=1)
    groups = [f"{name}-{number}" for number in range(GROUPS)]
    for number, group in enumerate(groups):
        alter_offsets(three_nodes, group, {(name, 0): number})
    client = KafkaAdminClient(bootstrap_servers=three_nodes)
    try:
        found = client.list_group_offsets(dict.fromkeys(groups))
    finally:
        client.close()
    offsets = [next(iter(found[group].values())).offset for group in groups]
    assert offsets == list(range(GROUPS))
