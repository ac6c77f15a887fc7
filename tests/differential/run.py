"""A run: many sequences; a difference is confirmed and shrunk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.differential.admin import probes
from tests.differential.generate import Generator
from tests.differential.known import Known, known
from tests.differential.play import Found, Play
from tests.differential.rights import grant
from tests.differential.servers import Server, client_of
from tests.differential.steps import Action, Restart
from tests.support.waiting import eventually

TOPICS: Final = {"t1": 4, "t2": 3, "t3": 1}
_ACTIONS_MAX: Final = 40
_TIMERS_EVERY: Final = 10
_SHRINKS_MAX: Final = 120
_SHRINK_S_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unexplained difference with the shortest sequence that shows it."""

    found: Found
    actions: tuple[Action, ...]
    seed: str

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        difference = self.found.difference
        yield ""
        yield f"-- {self.found.step.api.title} {difference.path} (sequence {self.seed})"
        for action in self.actions:
            yield f"   {action}"
        yield f"   Kafka:   {difference.kafka!r}"
        yield f"   Coterie: {difference.coterie!r}"
        for name, response in zip(
            ("Kafka", "Coterie"), self.found.responses, strict=True
        ):
            yield f"   {name} answered {response}"


class Run:
    """A run from one seed on two servers."""

    def __init__(
        self, servers: tuple[Server, Server], seed: int, *, restarts: int = 0
    ) -> None:
        self._servers = servers
        self._seed = seed
        self._restarts_left = restarts
        self._restarts = restarts
        self._topics = list(_created(servers))
        for server in servers:
            grant(server)
        self._plays = 0
        self._sequences = 0
        self.sent = 0
        self.unknown: list[Unknown] = []
        self.unstable: list[Unknown] = []
        self.known: Counter[Known] = Counter()
        self._seen: Counter[tuple[str, ...]] = Counter()

    @property
    def unexplained_count(self) -> int:
        """How many sequences ended with an unexplained difference that came again."""
        return self._seen.total()

    def sequence(self, requests: int) -> None:
        """Draw and play one sequence; shrink what is unexplained."""
        self._sequences += 1
        number = f"{self._seed}.{self._sequences}"
        chance = Random(number)
        timers = self._sequences % _TIMERS_EVERY == 0
        generator = Generator(chance, timers=timers)
        # Time-outs that pass during a restart end at different moments.
        restart_at = None if timers else self._restart_at(requests, chance)
        play = self._play()
        actions: list[Action] = []
        for at in range(_ACTIONS_MAX):
            action = Restart() if at == restart_at else generator.next(play)
            actions.append(action)
            play.play(at, action)
            if self._ends(play):
                break
        else:
            for probe in probes():
                actions.append(probe)
                play.play(len(actions) - 1, probe)
        play.close()
        self.sent += len(play.steps)
        for found in play.found:
            explanation = known(found, play.steps)
            if explanation is None:
                self._shrink(found, actions, number)
                return
            self.known[explanation] += 1
            if explanation.is_final:
                return

    def _restart_at(self, requests: int, chance: Random) -> int | None:
        """Return where to restart, so that restarts are spread over the run."""
        due = self.sent * (self._restarts + 1) // requests
        if not self._restarts_left or due <= self._restarts - self._restarts_left:
            return None
        self._restarts_left -= 1
        return chance.randrange(10, 30)

    def _play(self) -> Play:
        self._plays += 1
        return Play(self._servers, f"d{self._seed}-{self._plays}-", self._topics)

    def _ends(self, play: Play) -> bool:
        """Return whether the servers' states differ from here on, or may differ."""
        explanations = (known(each, play.steps) for each in play.found)
        return any(each is None or each.is_final for each in explanations)

    def _shrink(self, found: Found, actions: Sequence[Action], number: str) -> None:
        """Drop actions while the same difference remains."""
        if found.signature in self._seen:
            self._seen[found.signature] += 1
            return
        again = self._again(actions, found)
        if again is None:
            self.unstable.append(Unknown(found, tuple(actions), number))
            return
        self._seen[found.signature] = 1
        shortest, tries = list(actions[: again.at + 1]), 0
        deadline = time.monotonic() + _SHRINK_S_MAX
        size = max(len(shortest) // 2, 1)
        while size:
            at = 0
            while at < len(shortest) - 1 and tries < _SHRINKS_MAX:
                if time.monotonic() > deadline:
                    break
                shorter = shortest[:at] + shortest[at + size :]
                tries += 1
                if shorter and (less := self._again(shorter, found)):
                    again = less
                    shortest = shorter[: less.at + 1]
                else:
                    at += size
            size //= 2
        self.unknown.append(Unknown(again, tuple(shortest), number))

    def _again(self, actions: Sequence[Action], found: Found) -> Found | None:
        """Play actions once more; return the difference of the same signature."""
        play = self._play()
        try:
            for at, action in enumerate(actions):
                play.play(at, action)
                for each in play.found:
                    if (
                        each.signature == found.signature
                        and known(each, play.steps) is None
                    ):
                        return each
                if play.found:
                    return None
        finally:
            play.close()
        return None

    def report(self) -> Iterator[str]:
        """Yield what was found."""
        yield f"{self.sent} requests in {self._sequences} sequences on each server"
        for each, count in self.known.most_common():
            yield f"{count:6} known: {each.situation}"
        for name, some in (("unexplained", self.unknown), ("unstable", self.unstable)):
            yield f"{len(some)} {name}"
            for one in sorted(some, key=lambda each: len(each.actions)):
                yield from one.lines()


def _assign_share(client: WireClient) -> None:
    """Let a share group get its first partition: Kafka creates an internal topic."""
    epoch = 0

    def is_assigned() -> bool:
        nonlocal epoch
        topics = ["t3"] if epoch == 0 else None
        request = m.ShareGroupHeartbeatRequest(
            group_id="first-share-group",
            member_id="m",
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )
        response = client.call(request, 1)
        assert response.error_code == 0, response
        epoch = response.member_epoch
        return bool(response.assignment and response.assignment.topic_partitions)

    eventually(is_assigned, expected="an assigned share partition")


def _created(
    servers: tuple[Server, Server],
) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Create the topics that all sequences share; yield their ids on both servers."""
    ids: dict[str, list[bytes]] = {each: [] for each in TOPICS}
    for server in servers:
        request = m.CreateTopicsRequest(
            topics=[
                m.CreatableTopic(name=each, num_partitions=count, replication_factor=1)
                for each, count in TOPICS.items()
            ],
            timeout_ms=10_000,
        )
        with client_of(server) as client:
            made = client.call(request, 7).topics
            if any(topic.error_code for topic in made):  # another run made them
                wanted = [m.MetadataRequestTopic(name=each) for each in TOPICS]
                made = client.call(m.MetadataRequest(topics=wanted), 12).topics
            for topic in made:
                assert topic.error_code == 0, topic
                ids[topic.name].append(topic.topic_id)
            _assign_share(client)
    yield from ((each, (kafka, coterie)) for each, (kafka, coterie) in ids.items())
