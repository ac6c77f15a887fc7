"""Members and producers do with the error of a fault that comes while they work what
they do with the error's real cause.

The cause, or the fault `reply` that claims it, comes when the client has joined its
group or has begun its transaction, or is there before; the outcome is what the
application sees then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final, NamedTuple

import pytest

from coterie.auth.acl import CLUSTER_NAME, Operation, ResourceType
from coterie.testing import Kafka
from tests.real_clients import error_causes as causes
from tests.real_clients.client_operations import equal_outcomes
from tests.real_clients.client_sessions import (
    SESSIONS,
    TRANSACTIONAL_ID,
    Meanwhile,
    NewProtocolSessions,
    Sessions,
    nothing,
)
from tests.real_clients.test_fault_outcomes import ACLS, deny

pytestmark = pytest.mark.slow

TOPIC: Final = "orders"
INSTANCE: Final = "instance-1"
ALL: Final = tuple(SESSIONS)
NEW_PROTOCOL: Final = "confluent-kafka, consumer protocol"
CLIENTS: Final[Mapping[str, type[Sessions]]] = {
    **SESSIONS,
    NEW_PROTOCOL: NewProtocolSessions,
}

SETTINGS: Final = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
}

Cause = Callable[[Kafka], object]


class Case(NamedTuple):
    """An error of an API, work that meets it, and what causes it: `settings`, `before`
    the work, or while it goes on. `clients` have the API and meet the error there."""

    api: str
    error: str
    work: Callable[[Sessions], object]
    meanwhile: Cause | None = None
    before: Cause | None = None
    settings: Mapping[str, object] = {}
    times: int | None = None
    nodes: int = 1
    clients: tuple[str, ...] = ALL


def commits(client: Sessions) -> object:
    return client.member_commits(TOPIC)


def static_commits(client: Sessions) -> object:
    return client.member_commits(TOPIC, INSTANCE)


def stays(client: Sessions) -> object:
    return client.member_stays(TOPIC)


def static_stays(client: Sessions) -> object:
    return client.member_stays(TOPIC, INSTANCE)


def transacts(client: Sessions) -> object:
    return client.transacts(TOPIC)


def adds_offsets(client: Sessions) -> object:
    return client.transacts(TOPIC, "offset")


def ends(client: Sessions) -> object:
    return client.transacts(TOPIC, "nothing")


def begins(client: Sessions) -> object:
    return client.begins()


def produces_again(client: Sessions) -> object:
    return client.produces_again(TOPIC)


def deletes_offset(client: Sessions) -> object:
    return client.deletes_offset(TOPIC)


def stable_offset(client: Sessions) -> object:
    return client.stable_offset(TOPIC)


def reads_on(client: Sessions) -> object:
    return client.reads_on(TOPIC)


def deletes_group(client: Sessions) -> object:
    return client.deletes_group()


def writes_are_denied(kafka: Kafka) -> None:
    deny(kafka, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    deny(kafka, Operation.WRITE, ResourceType.TOPIC, "*")


def transactional_id_is_denied(operation: Operation) -> Cause:
    return lambda kafka: deny(
        kafka, operation, ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID
    )


CASES: Final = (
    Case("JoinGroup", "MEMBER_ID_REQUIRED", commits, times=1),
    Case(
        "JoinGroup",
        "GROUP_MAX_SIZE_REACHED",
        commits,
        before=causes.another_joins,
        settings={"group.max.size": 1},
    ),
    Case(
        "JoinGroup",
        "INCONSISTENT_GROUP_PROTOCOL",
        commits,
        before=causes.another_of_another_kind_joins,
    ),
    Case("OffsetCommit", "UNKNOWN_MEMBER_ID", commits, causes.member_is_removed),
    Case(
        "OffsetCommit",
        "ILLEGAL_GENERATION",
        commits,
        causes.generation_ends,
        # aiokafka joins as a new member, which waits for the session of the old one.
        clients=ALL[:2],
    ),
    Case(
        "OffsetCommit",
        "FENCED_INSTANCE_ID",
        static_commits,
        causes.second_process_starts,
        clients=ALL[:2],  # aiokafka's version has no instance id
    ),
    Case("Heartbeat", "UNKNOWN_MEMBER_ID", stays, causes.member_is_removed, times=1),
    Case(
        "Heartbeat",
        "ILLEGAL_GENERATION",
        stays,
        causes.generation_ends,
        times=1,
        clients=ALL[:2],
    ),
    Case("Heartbeat", "REBALANCE_IN_PROGRESS", stays, causes.rebalance_begins, times=1),
    Case(
        "Heartbeat",
        "FENCED_INSTANCE_ID",
        static_stays,
        causes.second_process_starts,
        clients=ALL[:2],  # aiokafka's version has no instance id
    ),
    Case(
        "DeleteGroups",
        "NON_EMPTY_GROUP",
        deletes_group,
        before=causes.another_joins,
        clients=ALL[:2],
    ),
    Case("DeleteGroups", "GROUP_ID_NOT_FOUND", deletes_group, clients=ALL[:2]),
    Case(
        "OffsetDelete",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        deletes_offset,
        before=causes.another_joins,
        clients=("kafka-python",),
    ),
    Case(
        "OffsetFetch",
        "UNSTABLE_OFFSET_COMMIT",
        stable_offset,
        before=causes.offset_is_pending,
        clients=ALL[:2],  # aiokafka's version does not ask for stable offsets
    ),
    Case("OffsetCommit", "NOT_COORDINATOR", commits, causes.coordinator_moves, times=1),
    Case(
        "OffsetCommit",
        "COORDINATOR_NOT_AVAILABLE",
        commits,
        causes.disk_is_full_once,
        times=1,
    ),
    # Members of the consumer protocol.
    Case(
        "ConsumerGroupHeartbeat",
        "UNSUPPORTED_ASSIGNOR",
        commits,
        settings={"group.consumer.assignors": "range"},
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "ConsumerGroupHeartbeat",
        "UNKNOWN_MEMBER_ID",
        stays,
        causes.session_of_the_member_ends,
        times=1,
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "ConsumerGroupHeartbeat",
        "UNRELEASED_INSTANCE_ID",
        static_commits,
        before=causes.static_member_exists,
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "ConsumerGroupHeartbeat",
        "GROUP_MAX_SIZE_REACHED",
        commits,
        before=causes.member_exists,
        settings={"group.consumer.max.size": 1},
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "OffsetCommit",
        "UNKNOWN_MEMBER_ID",
        commits,
        causes.session_of_the_member_ends,
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "ConsumerGroupHeartbeat",
        "FENCED_MEMBER_EPOCH",
        stays,
        causes.epoch_passes,
        times=1,
        clients=(NEW_PROTOCOL,),
    ),
    Case(
        "OffsetCommit",
        "STALE_MEMBER_EPOCH",
        commits,
        causes.epoch_passes,
        clients=(NEW_PROTOCOL,),
    ),
    # Readers with fetch sessions.
    Case(
        "Fetch",
        "FETCH_SESSION_ID_NOT_FOUND",
        reads_on,
        causes.session_ends,
        times=1,
        clients=("kafka-python",),
    ),
    # Producers.
    Case(
        "InitProducerId",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        begins,
        before=transactional_id_is_denied(Operation.WRITE),
        settings=ACLS,
    ),
    Case(
        "InitProducerId",
        "CLUSTER_AUTHORIZATION_FAILED",
        produces_again,
        before=writes_are_denied,
        settings=ACLS,
    ),
    Case(
        "InitProducerId",
        "INVALID_TRANSACTION_TIMEOUT",
        begins,
        settings={"transaction.max.timeout.ms": 30_000},
    ),
    Case(
        "Produce",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        produces_again,
        causes.batch_is_ahead,
    ),
    Case("Produce", "INVALID_PRODUCER_EPOCH", transacts, causes.second_producer_starts),
    Case("Produce", "INVALID_TXN_STATE", transacts, causes.transaction_is_aborted),
    Case("EndTxn", "INVALID_TXN_STATE", ends, causes.transaction_is_aborted),
    # Versions 0 and 1 of both APIs have another code for the same.
    *(
        Case(api, code, work, causes.second_producer_starts, clients=clients)
        for api, work in (("AddOffsetsToTxn", adds_offsets), ("EndTxn", ends))
        for code, clients in (
            ("PRODUCER_FENCED", ("kafka-python",)),
            ("INVALID_PRODUCER_EPOCH", ("confluent-kafka", "aiokafka")),
        )
    ),
)


@contextmanager
def server(case: Case, settings: Mapping[str, object]) -> Iterator[Kafka]:
    with Kafka(settings={**SETTINGS, **settings}, nodes=case.nodes) as kafka:
        kafka.topic(TOPIC)
        kafka.produce(TOPIC, [b"a", b"b"])
        yield kafka


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{number}-{case.api}-{case.error}-{name}")
        for number, case in enumerate(CASES)
        for name in case.clients
    ],
)
def test_the_outcome_is_that_of_the_real_cause(name: str, case: Case) -> None:
    def play(window_s: float) -> tuple[object, object]:
        def client(kafka: Kafka, meanwhile: Meanwhile) -> Sessions:
            made = CLIENTS[name](kafka.bootstrap_servers)
            made.window_s, made.meanwhile = window_s, meanwhile
            return made

        with server(case, case.settings) as kafka:
            if case.before is not None:
                case.before(kafka)
            cause = partial(case.meanwhile, kafka) if case.meanwhile else nothing
            real = case.work(client(kafka, cause))
            assert kafka.requests.of(case.api, errors=case.error), kafka.history()
        with server(case, {}) as kafka, ExitStack() as stack:

            def claim() -> None:
                fault = kafka.faults.reply(case.api, case.error, times=case.times)
                stack.enter_context(fault)

            if case.meanwhile is None:
                claim()
            faked = case.work(client(kafka, claim if case.meanwhile else nothing))
        return real, faked

    assert equal_outcomes(play)
