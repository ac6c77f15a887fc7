"""One server process with three nodes: coordinator lookups and partition leaders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    alter_offsets,
    committed_offsets,
    create_topic,
    produce,
)
from tests.real_clients.confluent_members import ConfluentGroup
from tests.support.server_process import start_server

PARTITIONS = 6
GROUPS = 12


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[str]:
    """The addresses of three nodes."""
    settings = {"group.initial.rebalance.delay.ms": 100}
    with start_server("--nodes", "3", settings=settings) as server:
        yield server.bootstrap


@pytest.fixture
def admin(three_nodes: str) -> AdminClient:
    """An admin client of the three nodes."""
    return admin_client(three_nodes)


def test_every_node_leads_some_partitions(
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
    with contextlib.closing(ConfluentGroup(three_nodes, name, name)) as members:
        members.join()
        members.join()
        members.poll_until(lambda: len(members.records) == 5 * PARTITIONS)
    assert committed_offsets(three_nodes, name) == {
        (name, p): 5 for p in range(PARTITIONS)
    }


@pytest.mark.fact("E28-06")
def test_groups_of_every_coordinator_are_listed_and_deleted(
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


def test_offsets_of_several_groups_are_fetched_from_their_coordinators(
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
