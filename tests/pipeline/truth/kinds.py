"""The kinds of groups that are recorded.

A kind is a generator that yields twice. At the first `yield` its topics exist; members
join when those of all kinds do, because the coordinator learns of topics later than
clients. At the second its group is settled, and the pipeline may read the first part of
the log. Nothing depends on time: each step waits for its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.pipeline.truth.members import (
    SESSION_MS,
    SHORT_SESSION_MS,
    AiokafkaMember,
    KafkaPythonMember,
)
from tests.pipeline.truth.recorder import CONSUMER, COOPERATIVE, EAGER, Recorder

Kind = Callable[[Recorder], Iterator[None]]


def classic_eager(r: Recorder) -> Iterator[None]:
    """Run two members, later one, with an idle topic and a rewind; one lives on."""
    group, busy = "classic-eager", r.topic("classic-busy", 4)
    topics = [busy, r.topic("classic-idle", 1, records=0)]
    yield
    a = r.join(group, "eager-a", topics, "first", **EAGER)
    a.commit(1, topic=busy)
    b = r.join(group, "eager-b", topics, "joined", **EAGER)
    for each in (a, b):
        each.commit(3, topic=busy)
    yield
    r.leave(b, "left")
    for offset in (8, 2, 10):
        a.commit(offset, topic=busy)
    a.commit(0, topic="classic-idle")


def classic_cooperative(r: Recorder) -> Iterator[None]:
    """Run three members that keep partitions during rebalances; all leave."""
    group, topics = "classic-cooperative", [r.topic("cooperative", 6)]
    yield
    a = r.join(group, "coop-a", topics, "first", **COOPERATIVE)
    b = r.join(group, "coop-b", topics, "joined", "follow_up", **COOPERATIVE)
    a.commit(2)
    b.commit(4)
    yield
    c = r.join(group, "coop-c", topics, "joined", "follow_up", **COOPERATIVE)
    c.commit(5)
    r.leave(a, "left")
    b.commit(6)
    r.leave(b, "left")
    c.commit(7)
    r.leave(c, "became_empty")


def kafka_python(r: Recorder) -> Iterator[None]:
    """Run members of kafka-python."""
    group, topics = "kafka-python", [r.topic("for-kafka-python", 3)]
    yield
    a = r.join(group, "python-a", topics, "first", library=KafkaPythonMember)
    a.commit(3, "first")
    b = r.join(group, "python-b", topics, "joined", library=KafkaPythonMember)
    b.commit(4)
    yield
    r.leave(a, "left")
    b.commit(10, "caught up")
    # kafka-python's leader may join again for no visible reason, so the generation of
    # the client tells how often; the third is that of the departure.
    r.journal.rebalanced(group, *["unknown"] * (b.generation() - 3))
    r.leave(b, "became_empty")


def aiokafka(r: Recorder) -> Iterator[None]:
    """Run members of aiokafka."""
    group, topics = "aiokafka", [r.topic("for-aiokafka", 3)]
    yield
    a = r.join(group, "aio-a", topics, "first", library=AiokafkaMember)
    a.commit(3)
    yield
    b = r.join(group, "aio-b", topics, "joined", library=AiokafkaMember)
    a.commit(5)
    b.commit(6)
    r.leave(b, "left")
    r.leave(a, "became_empty")


def consumer(r: Recorder) -> Iterator[None]:
    """Run three members of the consumer protocol, then two that live on."""
    group, busy = "consumer", r.topic("consumer-busy", 4)
    topics = [busy, r.topic("consumer-idle", 2, records=0)]
    yield
    a = r.join(group, "kip848-a", topics, "first", **CONSUMER)
    a.commit(0)
    b = r.join(group, "kip848-b", topics, "joined", **CONSUMER)
    for each in (a, b):
        each.commit(4, topic=busy)
    yield
    c = r.join(group, "kip848-c", topics, "joined", **CONSUMER)
    for each in (a, b, c):
        each.commit(7, topic=busy)
    r.leave(a, "left")
    for each in (b, c):
        each.commit(10, topic=busy)


def consumer_empty(r: Recorder) -> Iterator[None]:
    """Let the member of a consumer group leave behind a lag."""
    group, topics = "consumer-empty", [r.topic("left-behind")]
    yield
    a = r.join(group, "empty-a", topics, "first", **CONSUMER)
    a.commit(5)
    yield
    r.leave(a, "became_empty")
    r.produce("left-behind", 5)


def consumer_crash(r: Recorder) -> Iterator[None]:
    """Kill a member process of the consumer protocol."""
    group = "consumer-crash"
    yield from _crash(
        r,
        group,
        CONSUMER,
        CONSUMER,
        lambda session_ms: r.set_session(group, session_ms),
    )


def classic_crash(r: Recorder) -> Iterator[None]:
    """Kill a member process of the classic protocol."""
    killed = {**EAGER, "session.timeout.ms": SHORT_SESSION_MS}
    yield from _crash(r, "classic-crash", EAGER, killed, lambda _: None)


def _crash(
    r: Recorder,
    group: str,
    config: dict[str, Any],
    killed: dict[str, Any],
    set_session: Callable[[int], None],
) -> Iterator[None]:
    topic = r.topic(f"{group}-topic", 4)
    yield
    heir = r.join(group, f"{group}-heir", [topic], "first", **config)
    heir.commit(2)
    set_session(SHORT_SESSION_MS)
    process = r.start_process(group, f"{group}-killed", topic, "joined", **killed)
    heir.commit(4)
    r.kill(process, "left")
    set_session(SESSION_MS)
    heir.commit(9)
    yield
    heir.commit(10)


def static_classic(r: Recorder) -> Iterator[None]:
    """Restart a static member without a rebalance."""
    yield from _static(r, "static-classic", EAGER)


def static_consumer(r: Recorder) -> Iterator[None]:
    """Restart a static member of the consumer protocol."""
    yield from _static(r, "static-consumer", CONSUMER)


def _static(r: Recorder, group: str, config: dict[str, Any]) -> Iterator[None]:
    topics = [r.topic(f"{group}-topic", 4)]
    yield

    def ids(name: str) -> dict[str, Any]:
        return {"group.instance.id": f"{group}-{name}", **config}

    a = r.join(group, f"{group}-a", topics, "first", **ids("a"))
    b = r.join(group, f"{group}-b", topics, "joined", **ids("b"))
    a.commit(1)
    b.commit(2)
    yield
    r.restart_static(b)
    a.commit(5)


def migration(r: Recorder) -> Iterator[None]:
    """Upgrade a classic group to the consumer protocol, member by member."""
    group, topics = "migration", [r.topic("migrated", 4)]
    yield
    a = r.join(group, "migration-a", topics, "first", **EAGER)
    a.commit(2)
    b = r.join(group, "migration-b", topics, "upgraded", "joined", **CONSUMER)
    b.commit(4)
    yield
    a.commit(5)
    r.leave(a, "left")
    b.commit(6)


def transactions(r: Recorder) -> Iterator[None]:
    """Commit offsets in transactions, and abort one."""
    group, topics = "transactions", [r.topic("consumed")]
    yield
    a = r.join(group, "transactional", topics, "first", **EAGER)
    producer = r.producer("transactions")
    r.commit_in_transaction(producer, a, 3, abort=False)
    r.commit_in_transaction(producer, a, 9, abort=True)
    yield
    r.commit_in_transaction(producer, a, 6, abort=False)
    r.wait_for_offsets(group, {("consumed", 0): 6, ("consumed", 1): 6})
    r.leave(a, "became_empty")


def simple(r: Recorder) -> Iterator[None]:
    """Commit offsets without members, reset and delete them."""
    group, topic = "simple", r.topic("simple-topic", 3)
    yield
    r.alter(group, {(topic, each): 4 for each in range(3)})
    r.alter(group, {(topic, 0): 1})
    yield
    r.alter(group, {(topic, 0): 10, (topic, 1): 4})
    r.delete_offsets(group, [(topic, 2)])


def admin_resets(r: Recorder) -> Iterator[None]:
    """Reset and delete the offsets of an empty group."""
    group, topic = "admin-resets", r.topic("reset-topic", 3)
    yield
    a = r.join(group, "reset-a", [topic], "first", **EAGER)
    a.commit(7)
    r.leave(a, "became_empty")
    r.alter(group, {(topic, 0): 0, (topic, 1): 2})
    yield
    r.delete_offsets(group, [(topic, 2)])
    r.alter(group, {(topic, 2): 3})


def deleted_groups(r: Recorder) -> Iterator[None]:
    """Delete groups of both protocols; create one again."""
    topic = r.topic("outlives-groups")
    yield
    protocols = {"deleted-classic": EAGER, "deleted-consumer": CONSUMER}
    for group, config in protocols.items():
        a = r.join(group, f"{group}-a", [topic], "first", **config)
        a.commit(3)
        r.leave(a, "became_empty")
    r.delete_group("deleted-consumer")
    yield
    r.delete_group("deleted-classic")
    r.alter("came-back", {(topic, 0): 2})
    r.delete_group("came-back")
    r.alter("came-back", {(topic, 0): 3})
    r.journal.deleted_groups.discard("came-back")


def deleted_topic(r: Recorder) -> Iterator[None]:
    """Delete one of the two topics with offsets of a group."""
    group, topics = "deleted-topic", [r.topic("short-lived"), r.topic("long-lived")]
    yield
    r.alter(group, {(topic, each): 5 for topic in topics for each in range(2)})
    yield
    r.delete_topic("short-lived", [group])


def topic_deleted_under_members(r: Recorder) -> Iterator[None]:
    """Delete a topic while a member owns it."""
    group, gone, kept = "loses-topic", r.topic("owned-short"), r.topic("owned-long")
    yield
    a = r.join(group, "loses-a", [gone, kept], "first", **CONSUMER)
    a.commit(2)
    yield
    r.delete_topic(gone, [group])
    r.settle(group)
    r.journal.rebalanced(group, "metadata_changed")
    a.commit(10)


def more_partitions(r: Recorder) -> Iterator[None]:
    """Add partitions to the topic of a consumer group."""
    group, topic = "more-partitions", r.topic("growing", 2)
    yield
    a = r.join(group, "grows-a", [topic], "first", **CONSUMER)
    a.commit(10)
    yield
    r.add_partitions(topic, 4)
    r.settle(group)
    r.journal.rebalanced(group, "metadata_changed")
    a.commit_offsets({(topic, 3): 0})


def expired(r: Recorder) -> Iterator[None]:
    """Let offsets with an explicit retention time expire; others stay."""
    group, topic = "expired", r.topic("expiring")
    other = r.topic("also-expiring", 1)
    yield
    r.alter(group, {(topic, 1): 5})
    r.commit_with_retention("wholly-expired", {(topic, 0): 6}, 1)
    r.wait_for_expiry("wholly-expired", topic)
    r.journal.deleted_groups.add("wholly-expired")
    yield
    r.commit_with_retention(group, {(other, 0): 3}, 1)
    r.wait_for_expiry(group, other)


KINDS: Final[tuple[Kind, ...]] = (
    classic_eager,
    classic_cooperative,
    kafka_python,
    aiokafka,
    consumer,
    consumer_empty,
    consumer_crash,
    classic_crash,
    static_classic,
    static_consumer,
    migration,
    transactions,
    simple,
    admin_resets,
    deleted_groups,
    deleted_topic,
    topic_deleted_under_members,
    more_partitions,
    expired,
)
