"""One world: a server, members, a network, a disk, and what goes wrong with them.

Everything is decided by one seed. A world has two parts: first things go wrong, then
nothing does any more, and within `PEACE_MS` everybody must be where the group wants
them, and every partition have its owner.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from coterie.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.offsets.tombstones import DeletedTopic, TopicsDeleted
from coterie.runtime.shards import Phase
from coterie.settings import Settings
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from sim.checker import Checker, check_log
from sim.clock import Clock
from sim.commits import Commits
from sim.members.consumer import ConsumerMember, Surroundings
from sim.network import CALM, Network, Weather
from sim.server import Killed, Server, disk_failure
from sim.topics import Topics
from sim.transcript import Transcript

WAR_MS: Final = 40_000
PEACE_MS: Final = 40_000
ACT_EVERY_MS: Final = (100, 1_500)
MEMBERS_MAX: Final = 6
GROUPS: Final = ("g", "h")
TOPICS: Final = ("a", "b", "c")
LOOK_AT_LOG: Final = 0.02
SETTINGS: Final = Settings(
    group_consumer_session_timeout_ms=6_000,
    group_consumer_heartbeat_interval_ms=1_000,
    group_initial_rebalance_delay_ms=500,
    offsets_topic_num_partitions=2,
)


class World:
    """One seed's world. `run` lets it be; an AssertionError is a bug found."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self._disk_fails = 0.0
        self._dies_writing = 0.0
        self.clock = Clock()
        self.transcript = Transcript(self.clock)
        self.topics = Topics()
        for name in TOPICS[:2]:
            self.topics.create(name, self.dice.randint(1, 6))
        self.settings = self._settings()
        self.server = Server(
            self.clock, self.topics, self.settings, self.dice, self._before_write
        )
        self.network = Network(self.clock, self.server, self.dice)
        self.members: list[ConsumerMember] = []
        self.commits = Commits()
        self.checker = Checker()
        self.network.handled = self._handled
        self._made = 0
        self._is_war = True

    def _settings(self) -> Settings:
        interval_ms = self.dice.choice([0, 0, 1_000, 3_000])
        return replace(SETTINGS, group_consumer_assignment_interval_ms=interval_ms)

    # The course of a world.

    def run(self) -> None:
        """War, then peace. Raises AssertionError for a bug."""
        self.clock.settle()
        self.network.weather = self._some_weather()
        self._disk_fails = self.dice.choice([0, 0, 0.01, 0.05])
        self._dies_writing = self.dice.choice([0, 0, 0.002, 0.02])
        self._act()
        self._live_until(self.clock.now_ms + WAR_MS)
        self._make_peace()
        self._live_until(self.clock.now_ms + PEACE_MS)
        self._check_peace()

    def _some_weather(self) -> Weather:
        dice = self.dice
        return Weather(
            lost=dice.choice([0, 0.02, 0.1]),
            doubled=dice.choice([0, 0.05]),
            slow=dice.choice([0, 0.05, 0.2]),
            delay_max_ms=dice.choice([5, 100, 400]),
            slow_max_ms=dice.choice([1_000, 5_000]),
        )

    def _live_until(self, end_ms: int) -> None:
        while self.clock.now_ms < end_ms:
            try:
                self.clock.step()
                self.clock.settle()
            except Killed:
                self._kill("while it writes")
            self._check_step()

    def _make_peace(self) -> None:
        self.transcript.say("world", "peace")
        self._is_war = False
        self.network.weather = CALM
        self._disk_fails = self._dies_writing = 0.0
        for member in self.members:
            member.is_hung = False
        if not self.server.is_up:
            self._start()

    # What goes wrong.

    def _before_write(self) -> None:
        if self.dice.random() < self._dies_writing:
            raise Killed
        if self.dice.random() < self._disk_fails:
            self.transcript.say("disk", "fails")
            raise disk_failure()

    def _kill(self, how: str) -> None:
        self.transcript.say("server", f"is killed {how}")
        self.server.kill()
        self.clock.after(self.dice.randint(1, 3_000), self._start)

    def _start(self) -> None:
        if not self.server.is_up:
            self.transcript.say("server", "starts")
            self.server.start()

    def _act(self) -> None:
        """Let one thing happen, and another one after a while."""
        if not self._is_war:
            return
        acts: list[tuple[int, Callable[[], None]]] = [
            (6, self._join),
            (8, self._commit),
            (2, self._leave),
            (1, self._crash),
            (1, self._hang),
            (3, self._resubscribe),
            (2, self._change_topics),
            (1, self._kill_server),
            (1, self._snapshot),
            (1, self._compact),
            (1, self._choose_assignor),
        ]
        weights = [weight for weight, _ in acts]
        (act,) = self.dice.choices([act for _, act in acts], weights)
        act()
        self.clock.after(self.dice.randint(*ACT_EVERY_MS), self._act)

    def _join(self) -> None:
        alive = [member for member in self.members if member.is_alive]
        if len(alive) >= MEMBERS_MAX:
            return
        self._made += 1
        instance_id = None
        if self.dice.random() < 0.3:
            instance_id = self.dice.choice("ij")
        member = ConsumerMember(
            f"m{self._made}",
            self.dice.choices(GROUPS, [4, 1])[0],
            self._some_topics(),
            Surroundings(self.clock, self.network, self.dice, self.transcript),
            instance_id=instance_id,
        )
        static = "" if instance_id is None else f" as {instance_id}"
        self.transcript.say(
            member.name, f"joins {member.group_id}{static}: {','.join(member.topics)}"
        )
        self.members.append(member)

    def _some_topics(self) -> tuple[str, ...]:
        return tuple(
            sorted(self.dice.sample(TOPICS, self.dice.randint(1, len(TOPICS))))
        )

    def _some_member(self) -> ConsumerMember | None:
        alive = [member for member in self.members if member.is_alive]
        return self.dice.choice(alive) if alive else None

    def _leave(self) -> None:
        if (member := self._some_member()) is not None:
            member.leave()

    def _crash(self) -> None:
        if (member := self._some_member()) is not None:
            member.crash()

    def _hang(self) -> None:
        member = self._some_member()
        if member is not None:
            self.transcript.say(member.name, "hangs")
            member.is_hung = True

            def wake() -> None:
                member.is_hung = False

            self.clock.after(self.dice.randint(1_000, 12_000), wake)

    def _resubscribe(self) -> None:
        if (member := self._some_member()) is not None:
            member.subscribe(self._some_topics())
            self.transcript.say(member.name, f"wants {','.join(member.topics)}")

    def _choose_assignor(self) -> None:
        if (member := self._some_member()) is not None:
            member.assignor = self.dice.choice(["uniform", "range"])

    def _change_topics(self) -> None:
        name = self.dice.choice(TOPICS)
        is_old = name in self.topics.counts
        if not is_old:
            self.transcript.say("topics", f"{name} is made")
            self.topics.create(name, self.dice.randint(1, 6))
        elif self.dice.random() < 0.6:
            self.transcript.say("topics", f"{name} grows")
            self.topics.grow(name, self.dice.randint(1, 3))
        else:
            self.transcript.say("topics", f"{name} is deleted")
            topic_id = self.topics.delete(name)
            self.commits.forget(name)
            if self.server.is_up:
                gone = DeletedTopic(name, topic_id)
                self.server.runtime.notify(TopicsDeleted((gone,)))
        if self.server.is_up:
            created = () if is_old else (name,)
            self.server.runtime.notify(TopicsChanged((name,), created))

    def _kill_server(self) -> None:
        if self.server.is_up:
            self._kill("")

    def _snapshot(self) -> None:
        if self._all_active():
            self.transcript.say("server", "writes a snapshot")
            self.server.snapshot()

    def _compact(self) -> None:
        if self._all_active():
            self.transcript.say("server", "compacts its log")
            self.server.compact()

    def _all_active(self) -> bool:
        shards = self.server.runtime.shards
        return self.server.is_up and all(
            driven.phase is Phase.ACTIVE for driven in shards
        )

    # Commits.

    def _commit(self) -> None:
        member = self._some_member()
        if member is None or not member.owned:
            return
        topic_id, partition = self.dice.choice(sorted(member.owned))
        topic = self.topics.topic_name(topic_id)
        if topic is None:
            return
        request = self.commits.request(
            member.group_id, member.member_id, member.epoch, topic, partition
        )

        def answered(response: Any) -> None:
            if topic in self.topics.counts:
                self.commits.answered(request, response)

        self.network.ask(f"{member.name}c", member.group_id, request, 9, answered)

    def _handled(self, group_id: str, request: Any) -> None:
        shard = self.server.shard(group_id)
        if shard is not None and isinstance(request, OffsetCommitRequest):
            self.commits.handled(shard, request)

    # Looking.

    def _check_step(self) -> None:
        assert not self.server.bugs, self.server.bugs
        if not self.server.is_up:
            return
        for driven in self.server.runtime.shards:
            if driven.phase is Phase.ACTIVE:
                self.checker.check(driven.shard, self.members)  # type: ignore[arg-type]
                if self.dice.random() < LOOK_AT_LOG and not self.server.log.staged():
                    check_log(self.server.log, driven, self.settings)

    def _check_peace(self) -> None:
        for driven in self.server.runtime.shards:
            assert driven.phase is Phase.ACTIVE
            check_log(self.server.log, driven, self.settings)
        for group_id in GROUPS:
            shard = self.server.shard(group_id)
            assert shard is not None
            self.commits.check(shard, group_id)
            group = shard.state.consumer_groups.get(group_id)
            living = [
                member
                for member in self.members
                if member.is_alive and member.group_id == group_id
            ]
            if group is not None:
                self._check_settled(group, living)
            else:
                assert not living, f"{group_id} is not there, {living[0].name} is"

    def _check_settled(
        self, group: ConsumerGroup, living: list[ConsumerMember]
    ) -> None:
        """Everybody is at the target, and every partition that is wanted is owned."""
        if not living:
            return
        assert group.state is ConsumerGroupState.STABLE, group.state
        assert group.members.keys() == {member.member_id for member in living}
        for member in living:
            known = group.members[member.member_id]
            held = {(t, p) for t, some in known.assigned.items() for p in some}
            assert member.owned == held, f"{member.name} owns other than it shall"
            assert member.epoch == group.epoch, member.name
        owned = {partition for member in living for partition in member.owned}
        for topic in {topic for member in living for topic in member.topics}:
            topic_id = self.topics.topic_id(topic)
            for partition in range(self.topics.counts.get(topic, 0)):
                assert topic_id is not None
                assert (topic_id, partition) in owned, f"{topic}-{partition}: no owner"
