"""Steps about committed offsets, transactional ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.wire import messages as m
from tests.differential.steps import Step, ref

if TYPE_CHECKING:
    from tests.differential.generate import Draw


def draw(draw: Draw) -> Step:
    """Draw a commit, a fetch, a deletion, or a step of a transaction."""
    kinds = (_commit, _fetch, _delete, _init, _add, _txn_commit, _end)
    weights = (6, 5, 1, 0.6, 0.8, 1.6, 1)
    request = draw.chance.choices(kinds, weights)[0](draw)
    version = draw.version(type(request))
    if isinstance(request, m.OffsetFetchRequest) and request.topics is None:
        version = max(version, 2)  # v1 has no way to ask for all topics
    return Step(draw.actor, request, version)


def _topics(draw: Draw) -> list[tuple[str, list[int]]]:
    """Draw topics with partitions; some do not exist."""
    chance = draw.chance
    names = chance.sample(("t1", "t2", "t3", "none"), chance.choice((1, 1, 2)))
    partitions: tuple[list[int], ...] = ([0], [0, 1], [2], [99], [])
    return [(each, chance.choices(partitions, (6, 6, 2, 1, 0.5))[0]) for each in names]


def _who(draw: Draw) -> tuple[Any, Any]:
    """Draw a member id and its epoch; neither for a simple commit."""
    actor = draw.some_actor()
    return draw.chance.choices(
        (
            (ref("member", actor), ref("epoch", actor)),
            (ref("member", actor), draw.stale(actor)),
            (ref("member", actor), ref("epoch", actor, 1)),
            ("", -1),
            ("nobody", 1),
            ("", ref("epoch", actor)),
        ),
        (8, 1, 1, 4, 0.5, 0.5),
    )[0]


def _instance(draw: Draw) -> str | None:
    some = f"i-{draw.some_actor()}"
    return draw.chance.choices((None, some, "i-none"), (20, 2, 1))[0]


def _commit(draw: Draw) -> Any:
    chance = draw.chance
    member_id, epoch = _who(draw)
    return m.OffsetCommitRequest(
        group_id=draw.group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=_instance(draw),
        retention_time_ms=-1,
        topics=[
            m.OffsetCommitRequestTopic(
                name=name,
                topic_id=ref("topic", name),
                partitions=[
                    m.OffsetCommitRequestPartition(
                        partition_index=each,
                        committed_offset=chance.choice((0, 7, 1_000, -1)),
                        committed_leader_epoch=chance.choice((-1, 0, 5)),
                        committed_metadata=chance.choice((None, "", "m", "é" * 3_000)),
                    )
                    for each in partitions
                ],
            )
            for name, partitions in _topics(draw)
        ],
    )


def _fetch(draw: Draw) -> Any:
    chance = draw.chance
    member_id, epoch = chance.choices(((None, -1), _who(draw)), (3, 1))[0]
    topics = None if chance.random() < 0.3 else _topics(draw)
    groups = [draw.group] if chance.random() < 0.8 else ["%g1", "%g2", "%none"]
    return m.OffsetFetchRequest(
        group_id=draw.group,
        topics=None
        if topics is None
        else [
            m.OffsetFetchRequestTopic(name=name, partition_indexes=partitions)
            for name, partitions in topics
        ],
        groups=[
            m.OffsetFetchRequestGroup(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                topics=None
                if topics is None
                else [
                    m.OffsetFetchRequestTopics(
                        name=name,
                        topic_id=ref("topic", name),
                        partition_indexes=partitions,
                    )
                    for name, partitions in topics
                ],
            )
            for group in groups
        ],
        require_stable=chance.random() < 0.4,
    )


def _delete(draw: Draw) -> Any:
    return m.OffsetDeleteRequest(
        group_id=draw.group,
        topics=[
            m.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    m.OffsetDeleteRequestPartition(partition_index=each)
                    for each in partitions
                ],
            )
            for name, partitions in _topics(draw)
        ],
    )


def _transactional_id(draw: Draw) -> str:
    return draw.chance.choices((f"%x-{draw.actor}", "%x-a1", ""), (20, 2, 1))[0]


def _init(draw: Draw) -> Any:
    is_again = draw.chance.random() < 0.3
    return m.InitProducerIdRequest(
        transactional_id=_transactional_id(draw),
        transaction_timeout_ms=60_000,
        producer_id=ref("producer", draw.actor) if is_again else -1,
        producer_epoch=ref("producer_epoch", draw.actor) if is_again else -1,
    )


def _producer(draw: Draw) -> dict[str, Any]:
    actor = draw.some_actor()
    delta = draw.chance.choices((0, 1, -1), (20, 1, 1))[0]
    return {
        "transactional_id": f"%x-{actor}",
        "producer_id": ref("producer", actor),
        "producer_epoch": ref("producer_epoch", actor, delta),
    }


def _add(draw: Draw) -> Any:
    return m.AddOffsetsToTxnRequest(**_producer(draw), group_id=draw.group)


def _txn_commit(draw: Draw) -> Any:
    member_id, epoch = _who(draw)
    return m.TxnOffsetCommitRequest(
        **_producer(draw),
        group_id=draw.group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=_instance(draw),
        topics=[
            m.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    m.TxnOffsetCommitRequestPartition(
                        partition_index=each,
                        committed_offset=draw.chance.choice((1, 50)),
                        committed_metadata="",
                    )
                    for each in partitions
                ],
            )
            for name, partitions in _topics(draw)
        ],
    )


def _end(draw: Draw) -> Any:
    return m.EndTxnRequest(**_producer(draw), committed=draw.chance.random() < 0.6)
