"""Every interleaving of a small world: three members, two topics, one failure.

No dice here: from the start every step that can be taken is taken, to a stated depth,
and worlds that are alike are looked at once. A step is a heartbeat with its answer, a
member that has let partitions go, one that leaves; a failure is an answer that is lost,
a member that crashes and whose session ends, a revocation that takes too long, a server
that starts anew from its log. In every world the coordinator's state is sound, epochs
do not go back, and nobody reads what may be another's; and from every world at the last
depth, once nothing fails any more, everybody ends at the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coterie.coordinator import invariants
from coterie.coordinator.assignors.registry import configured
from coterie.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.consumer.records import group_records
from coterie.coordinator.consumer.timers import EndRevocation, ExpireMember
from coterie.coordinator.records.serde import encode_record
from coterie.coordinator.result import Context, Origin, Record
from coterie.coordinator.shard import Shard
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import GroupId, TopicId
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sim.broken import Broken

Part = tuple[TopicId, int]

GROUP: Final = "g"
SIZES: Final = {"t": 2, "u": 1}
WANTS: Final = {"a": ("t", "u"), "b": ("t",), "c": ("t", "u")}
FAILURES: Final = 1
SETTLED_WITHIN: Final = 12
"""Rounds of heartbeats of everybody after which a calm group is settled."""
SETTINGS: Final = Settings(group_consumer_assignment_interval_ms=0)
_ASSIGNORS: Final = configured(SETTINGS.group_consumer_assignors)


class Topics:
    """Two topics that never change."""

    version = 1

    def partition_count(self, topic: str) -> int | None:
        """How many partitions a topic has."""
        return SIZES.get(topic)

    def topic_id(self, topic: str) -> TopicId | None:
        """A topic's id: its name, filled up."""
        return topic.encode().ljust(16, b"\0") if topic in SIZES else None

    def topic_name(self, topic_id: TopicId) -> str | None:
        """A topic's name."""
        return topic_id.rstrip(b"\0").decode()

    def topic_names(self) -> list[str]:
        """Both of them."""
        return [*SIZES]

    def partition_racks(self, topic: str) -> tuple[()]:
        """Nobody knows of racks."""
        return ()


class Configs:
    """What holds for every group."""

    version = 0

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """Sessions end by a step, not by a clock."""
        return SETTINGS.group_consumer_session_timeout_ms

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """Heartbeats come by a step."""
        return SETTINGS.group_consumer_heartbeat_interval_ms

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """Every epoch has its target at once."""
        return 0


@dataclass(frozen=True, slots=True)
class Client:
    """A member as it sees itself; `wanted` is what it was told to own last."""

    epoch: int = 0
    owned: frozenset[Part] = frozenset()
    wanted: frozenset[Part] = frozenset()
    is_alive: bool = True

    @property
    def has_to_revoke(self) -> bool:
        """Whether it still reads what it was told to give up."""
        return bool(self.owned - self.wanted)


class World(NamedTuple):
    """All there is, as a value."""

    records: tuple[Record, ...]
    clients: tuple[tuple[str, Client], ...]
    failures: int

    @property
    def key(self) -> tuple[object, ...]:
        """What worlds that are alike have in common."""
        log = frozenset(encode_record(record) for record in self.records)
        return log, self.clients, self.failures


class Step(NamedTuple):
    """One thing that can happen."""

    what: str
    who: str = ""

    def __str__(self) -> str:
        return f"{self.who} {self.what}".strip()


class Explored(NamedTuple):
    """How many worlds were looked at, and to which depth."""

    worlds: int
    depth: int


def explore(depth: int) -> Explored:
    """Look at every world that so many steps can lead to. Raises Broken."""
    start = World((), tuple((name, Client()) for name in WANTS), FAILURES)
    frontier: dict[tuple[object, ...], tuple[World, tuple[Step, ...]]] = {
        start.key: (start, ())
    }
    seen = set(frontier)
    for _ in range(depth):
        following: dict[tuple[object, ...], tuple[World, tuple[Step, ...]]] = {}
        for world, path in frontier.values():
            for step in _steps(world):
                after = _checked(world, step, path)
                if after.key not in seen:
                    seen.add(after.key)
                    following[after.key] = (after, (*path, step))
        frontier = following
    for world, path in frontier.values():
        _check_settles(world, path)
    return Explored(len(seen), depth)


def _steps(world: World) -> Iterator[Step]:
    group = _group(_shard(world))
    for name, client in world.clients:
        known = None if group is None else group.members.get(name)
        if not client.is_alive:
            if known is not None:
                yield Step("is not heard of for its session", name)
            continue
        yield Step("beats", name)
        if client.has_to_revoke:
            yield Step("has let go", name)
        if client.epoch > 0:
            yield Step("leaves", name)
        if world.failures:
            yield Step("beats and hears nothing", name)
            yield Step("crashes", name)
            if known is not None and known.pending_revocation:
                yield Step("takes too long to let go", name)
    if world.failures:
        yield Step("the server starts anew")


def _checked(world: World, step: Step, path: tuple[Step, ...]) -> World:
    try:
        after = _taken(world, step)
        _check(world, after)
    except (AssertionError, Broken) as found:
        told = "\n".join(f"  {each}" for each in (*path, step))
        raise Broken(f"{found}, after:\n{told}") from found
    return after


def _taken(world: World, step: Step) -> World:
    """The world after a step."""
    name = step.who
    clients = dict(world.clients)
    failures = world.failures
    shard = _shard(world)
    client = clients.get(name, Client())
    match step.what:
        case "beats":
            client = _hears(client, _beat(shard, name, client))
        case "beats and hears nothing":
            _beat(shard, name, client)
            failures -= 1
        case "has let go":
            client = replace(client, owned=client.wanted)
        case "leaves":
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=name, member_epoch=-1
            )
            _ask(shard, request)
            client = Client(is_alive=False)
        case "crashes":
            client = Client(is_alive=False)
            failures -= 1
        case "is not heard of for its session":
            _fire(shard, ExpireMember(GROUP, name))
        case "takes too long to let go":
            group = _group(shard)
            assert group is not None
            _fire(shard, EndRevocation(GROUP, name, group.members[name].epoch))
            failures -= 1
        case "the server starts anew":
            failures -= 1
    if name:
        clients[name] = client
    group = _group(shard)
    records = () if group is None else tuple(group_records(group))
    return World(records, tuple(clients.items()), failures)


def _shard(world: World) -> Shard:
    """A shard that has loaded the world's log."""
    shard = Shard(SETTINGS)
    for at, record in enumerate(world.records):
        shard.replay(record, Origin(at, 0))
    return shard


def _group(shard: Shard) -> ConsumerGroup | None:
    return shard.state.consumer_groups.get(GROUP)


def _context() -> Context:
    return Context(
        now_ms=1_000,
        ticket=1,
        api_version=1,
        client_id="sim",
        client_host="/sim",
        fresh_id=str,
        topics=Topics(),
        settings=SETTINGS,
        configs=Configs(),
        assignors=_ASSIGNORS,
        fresh_uuid=bytes,
    )


def _beat(
    shard: Shard, name: str, client: Client
) -> ConsumerGroupHeartbeatResponse | None:
    """A full heartbeat; None when the group does not know the member like this."""
    topics: dict[TopicId, list[int]] = {}
    for topic, partition in sorted(client.owned):
        topics.setdefault(topic, []).append(partition)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=name,
        member_epoch=client.epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=list(WANTS[name]),
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=some)
            for topic, some in topics.items()
        ],
    )
    return _ask(shard, request)


def _ask(
    shard: Shard, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | None:
    try:
        result = shard.handle(request, _context())
    except ApiError:
        return None
    _make_true(shard, result.records)
    assert isinstance(result.response, ConsumerGroupHeartbeatResponse)
    return result.response


def _fire(shard: Shard, request: ExpireMember | EndRevocation) -> None:
    _make_true(shard, shard.handle(request, _context()).records)


def _make_true(shard: Shard, records: tuple[Record, ...]) -> None:
    for record in records:
        shard.replay(record, Origin(1_000, 0))


def _hears(client: Client, answer: ConsumerGroupHeartbeatResponse | None) -> Client:
    """What a member makes of its answer: fenced, it lets everything go."""
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


def _check(before: World, after: World) -> None:
    """What must hold in every world, and from one to the next."""
    shard = _shard(after)
    invariants.check(shard.state)
    group, was = _group(shard), _group(_shard(before))
    if group is None:
        return
    if was is not None and was.epoch > group.epoch:
        raise Broken(f"the group epoch goes back from {was.epoch} to {group.epoch}")
    for name, client in after.clients:
        known = group.members.get(name)
        if known is None or not client.owned:
            continue
        held = {
            (topic, partition)
            for each in (known.assigned, known.pending_revocation)
            for topic, some in each.items()
            for partition in some
        }
        if client.owned - held:
            raise Broken(f"{name} reads {sorted(client.owned - held)}, and may not")


def _check_settles(world: World, path: tuple[Step, ...]) -> None:
    """Once nothing fails any more, everybody ends at the target (liveness)."""
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
