"""Explore every interleaving of a small world: three members, two topics, one failure.
From the start every possible step is taken, to a given depth, and equal worlds are
visited once. A step is a heartbeat with its response, a completed revocation, or a
member that leaves. A failure is a lost response, a crashed member whose session
expires, a revocation that takes too long, or a restart of the server from its log. In
every world the state must be consistent, epochs must not decrease, and no two members
may consume one partition. From every world at the last depth, without further failures,
all members must reach the target assignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.consumer.timers import EndRevocation, ExpireMember
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.result import (
    Context,
    CoordinatorEnvironment,
    Origin,
    Record,
)
from coterie.broker.coordinator.shard import Shard
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import TopicId
from coterie.wire import messages as m
from sim import invariants
from sim.broken import Broken

TopicIdPartition = tuple[TopicId, int]

GROUP: Final = "g"
SIZES: Final = {"t": 2, "u": 1}
WANTS: Final = {"a": ("t", "u"), "b": ("t",), "c": ("t", "u")}
FAILURES: Final = 1
SETTLED_WITHIN: Final = 12
"""Rounds of heartbeats of all members after which a calm group has settled."""
SETTINGS: Final = Settings(group_consumer_assignment_interval_ms=0)
_CONFIGS: Final = GroupConfigs(SETTINGS)
_ASSIGNORS: Final = configured(SETTINGS.group_consumer_assignors)


class FixedTopics:
    """A `TopicView` with two topics that never change."""

    version = 1

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic."""
        return SIZES.get(topic)

    def topic_id(self, topic: str) -> TopicId | None:
        """Return a topic's id: its padded name."""
        return topic.encode().ljust(16, b"\0") if topic in SIZES else None

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return a topic's name."""
        return topic_id.rstrip(b"\0").decode()

    def topic_names(self) -> list[str]:
        """Return both names."""
        return [*SIZES]

    def partition_racks(self, topic: str) -> tuple[()]:
        """Return no racks: none are known."""
        return ()


@dataclass(frozen=True, slots=True)
class Client:
    """The state of a member's client; `wanted` is its last received assignment."""

    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    wanted: frozenset[TopicIdPartition] = frozenset()
    is_alive: bool = True

    @property
    def has_to_revoke(self) -> bool:
        """Whether the member still consumes partitions that it must revoke."""
        return bool(self.owned - self.wanted)


class SmallWorld(NamedTuple):
    """An immutable snapshot of the whole world."""

    records: tuple[Record, ...]
    clients: tuple[tuple[str, Client], ...]
    failures: int

    @property
    def key(self) -> tuple[object, ...]:
        """Return a value that is equal for equal worlds."""
        log = frozenset(encode_record(record) for record in self.records)
        return log, self.clients, self.failures


class Step(NamedTuple):
    """A possible step: its action, and the member if it has one."""

    what: str
    who: str = ""

    def __str__(self) -> str:
        return f"{self.who} {self.what}".strip()


class Exploration(NamedTuple):
    """The number of visited worlds, and the depth."""

    worlds: int
    depth: int


def explore(depth: int) -> Exploration:
    """Visit every world that is reachable in this many steps. Raise Broken."""
    start = SmallWorld((), tuple((name, Client()) for name in WANTS), FAILURES)
    frontier: dict[tuple[object, ...], tuple[SmallWorld, tuple[Step, ...]]] = {
        start.key: (start, ())
    }
    seen = set(frontier)
    for _ in range(depth):
        following: dict[tuple[object, ...], tuple[SmallWorld, tuple[Step, ...]]] = {}
        for world, path in frontier.values():
            for step in _steps(world):
                after = _checked(world, step, path)
                if after.key not in seen:
                    seen.add(after.key)
                    following[after.key] = (after, (*path, step))
        frontier = following
    for world, path in frontier.values():
        _check_settles(world, path)
    return Exploration(len(seen), depth)


def _steps(world: SmallWorld) -> Iterator[Step]:
    group = _group(_shard(world))
    for name, client in world.clients:
        known = None if group is None else group.members.get(name)
        if not client.is_alive:
            if known is not None:
                yield Step("is silent for its session timeout", name)
            continue
        yield Step("beats", name)
        if client.has_to_revoke:
            yield Step("has revoked", name)
        if client.epoch > 0:
            yield Step("leaves", name)
        if world.failures:
            yield Step("sends a heartbeat whose response is lost", name)
            yield Step("crashes", name)
            if known is not None and known.pending_revocation:
                yield Step("takes too long to revoke", name)
    if world.failures:
        yield Step("the server restarts")


def _checked(world: SmallWorld, step: Step, path: tuple[Step, ...]) -> SmallWorld:
    try:
        after = _taken(world, step)
        _check(world, after)
    except (AssertionError, Broken) as found:
        told = "\n".join(f"  {each}" for each in (*path, step))
        raise Broken(f"{found}, after:\n{told}") from found
    return after


def _taken(world: SmallWorld, step: Step) -> SmallWorld:
    """Return the world after a step."""
    name = step.who
    clients = dict(world.clients)
    failures = world.failures
    shard = _shard(world)
    client = clients.get(name, Client())
    match step.what:
        case "beats":
            client = _handle_response(client, _beat(shard, name, client))
        case "sends a heartbeat whose response is lost":
            _beat(shard, name, client)
            failures -= 1
        case "has revoked":
            client = replace(client, owned=client.wanted)
        case "leaves":
            request = m.ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=name, member_epoch=-1
            )
            _ask(shard, request)
            client = Client(is_alive=False)
        case "crashes":
            client = Client(is_alive=False)
            failures -= 1
        case "is silent for its session timeout":
            _fire(shard, ExpireMember(GROUP, name))
        case "takes too long to revoke":
            group = _group(shard)
            assert group is not None
            _fire(shard, EndRevocation(GROUP, name, group.members[name].epoch))
            failures -= 1
        case "the server restarts":
            failures -= 1
    if name:
        clients[name] = client
    group = _group(shard)
    records = () if group is None else tuple(group_records(group))
    return SmallWorld(records, tuple(clients.items()), failures)


def _shard(world: SmallWorld) -> Shard:
    """Return a shard after a replay of the world's log."""
    shard = Shard(SETTINGS)
    for at, record in enumerate(world.records):
        shard.replay(record, Origin(at, 0))
    return shard


def _group(shard: Shard) -> ConsumerGroup | None:
    return shard.state.consumer_groups.get(GROUP)


def _context() -> Context:
    environment = CoordinatorEnvironment(
        settings=SETTINGS,
        topics=FixedTopics(),
        configs=_CONFIGS,
        assignors=_ASSIGNORS,
        new_id=str,
        new_uuid=bytes,
    )
    return Context(environment, 1_000, 1, 1, client_id="sim", client_host="/sim")


def _beat(
    shard: Shard, name: str, client: Client
) -> m.ConsumerGroupHeartbeatResponse | None:
    """Send a full heartbeat; return None when the group fences the member."""
    topics: dict[TopicId, list[int]] = {}
    for topic, partition in sorted(client.owned):
        topics.setdefault(topic, []).append(partition)
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=name,
        member_epoch=client.epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=list(WANTS[name]),
        topic_partitions=[
            m.TopicPartitions(topic_id=topic, partitions=some)
            for topic, some in topics.items()
        ],
    )
    return _ask(shard, request)


def _ask(
    shard: Shard, request: m.ConsumerGroupHeartbeatRequest
) -> m.ConsumerGroupHeartbeatResponse | None:
    try:
        result = shard.handle(request, _context())
    except ApiError:
        return None
    _make_true(shard, result.records)
    assert isinstance(result.response, m.ConsumerGroupHeartbeatResponse)
    return result.response


def _fire(shard: Shard, request: ExpireMember | EndRevocation) -> None:
    _make_true(shard, shard.handle(request, _context()).records)


def _make_true(shard: Shard, records: tuple[Record, ...]) -> None:
    for record in records:
        shard.replay(record, Origin(1_000, 0))


def _handle_response(
    client: Client, answer: m.ConsumerGroupHeartbeatResponse | None
) -> Client:
    """Apply a response to the member; None means fenced, which revokes all
    partitions.
    """
    if answer is None:
        return Client()
    wanted = client.wanted
    if answer.assignment is not None:
        wanted = frozenset(
            (topic.topic_id, partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        )
    owned = client.owned if client.owned - wanted else wanted
    return replace(client, epoch=answer.member_epoch, wanted=wanted, owned=owned)


def _check(before: SmallWorld, after: SmallWorld) -> None:
    """Check the invariants of a world and of the step to it."""
    shard = _shard(after)
    invariants.check(shard.state)
    group, was = _group(shard), _group(_shard(before))
    if group is None:
        return
    if was is not None and was.epoch > group.epoch:
        raise Broken(f"the group epoch decreases from {was.epoch} to {group.epoch}")
    for name, client in after.clients:
        known = group.members.get(name)
        if known is None or not client.owned:
            continue
        held = {
            (topic, partition)
            for each in (
                known.assigned,
                known.pending_revocation,
            )
            for topic, some in each.items()
            for partition in some
        }
        if client.owned - held:
            raise Broken(f"{name} reads {sorted(client.owned - held)}, and may not")


def _check_settles(world: SmallWorld, path: tuple[Step, ...]) -> None:
    """Check that all members reach the target assignment without further failures
    (liveness).
    """
    calm = world._replace(failures=0)
    for _ in range(SETTLED_WITHIN):
        for step in [*_steps(calm)]:
            if step.what != "leaves":
                calm = _checked(calm, step, path)
    group = _group(_shard(calm))
    living = {name for name, client in calm.clients if client.is_alive}
    if group is None or not living:
        return
    owned = [part for _, client in calm.clients for part in client.owned]
    wanted = {topic for name in living for topic in WANTS[name]}
    count = sum(SIZES[topic] for topic in wanted)
    is_stable = group.state is ConsumerGroupState.STABLE
    if not is_stable or group.members.keys() != living or len(owned) != count:
        told = "\n".join(f"  {each}" for each in path)
        raise Broken(f"{group.state}, {len(owned)} of {count} owned, after:\n{told}")
