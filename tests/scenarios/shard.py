"""The player on a whole shard with a simulated clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.settings import Settings
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.driver import Sent, Topics
from tests.broker.coordinator.requests import topic_id
from tests.scenarios.players import MemberView, Player


@dataclass
class ShardPlayer(GroupDriver, Player):
    """A `GroupDriver`, which checks the invariants of the state after every line."""

    topics: Topics = field(default_factory=lambda: Topics({}))

    def set_topics(self, counts: Mapping[str, int], *, silent: bool = False) -> None:
        made = [name for name in counts if name not in self.topics.counts]
        self.topics.counts.update(counts)
        self.topics.version += 1
        if not silent:
            self.fire(TopicsChanged([*counts], made))

    def delete_topic(self, name: str) -> None:
        del self.topics.counts[name]
        self.topics.version += 1
        self.fire(TopicsChanged((name,)))
        self.fire(TopicsDeleted((DeletedTopic(name, topic_id(name)),)))

    def resolve_regexes(self) -> None:
        self.advance(0)

    def await_share_state(self) -> None:
        """Change the state at once; its records count as those of the last request."""
        count = len(self.results)
        self.advance(0)
        self._join_results(count)

    def send(self, request: Any, **options: Any) -> Sent:
        """Send a request; a share group is deleted at once."""
        count = len(self.results)
        sent = super().send(request, **options)
        if isinstance(request, DeleteGroup) and sent.parked:
            self.advance(0)
            self._join_results(count + 1)
        return sent

    def _join_results(self, count: int) -> None:
        """Add the records of later results to those of the `count`-th."""
        records = [each for some in self.results[count - 1 :] for each in some.records]
        self.results[-1] = self.results[-1]._replace(records=tuple(records))

    def restarted(self) -> ShardPlayer:
        """Load the log into another shard."""
        loaded = self.reloaded()
        fresh = ShardPlayer(
            shard=loaded.shard,
            settings=self.settings,
            topics=self.topics,
            now_ms=self.now_ms,
            group_id=self.group_id,
        )
        fresh.configs, fresh.scripted = self.configs, self.scripted
        fresh.timers, fresh._due = loaded.timers, loaded._due
        fresh.history, fresh.log = loaded.history, loaded.log
        fresh.origins = loaded.origins
        return fresh

    def configure_server(self, setting: str, value: str) -> None:
        name = setting.replace(".", "_")
        kinds = {each.name: each.type for each in fields(Settings)}
        known: Any = {"int": int, "bool": lambda text: text == "true"}
        changed = {name: known.get(kinds[name], str)(value)}
        self.settings = replace(self.settings, **changed)
        self.shard.settings = self.settings
        self.configs = GroupConfigs(self.settings)

    def configure_group(self, config: str, value: str) -> None:
        entry = self.configs.alter(self.group_id, {config: value})
        self.configs.replay(entry.name, entry.value)

    def exists(self) -> bool:
        return self.state.group(self.group_id) is not None

    def consumer_group(self) -> tuple[str, int, int]:
        group = self.group
        return group.state.value, group.epoch, group.assignment_epoch

    def classic_group(self) -> tuple[str, int | None]:
        assert not self.state.consumer_groups
        group = self.groups[self.group_id]
        return group.state.value, group.generation

    def member_view(self, member_id: str) -> MemberView:
        member = self.member(member_id)
        pending = {
            topic.rstrip(b"\0").decode(): sorted(some)
            for topic, some in member.pending_revocation.items()
        }
        return MemberView(member.state.name, member.epoch, pending)

    def member_ids(self) -> list[str]:
        group = self.state.group(self.group_id)
        assert group is not None
        return sorted(group.members)

    def committed(self, topic: str, partition: int) -> int | None:
        stored = self.state.offsets.stored.get(self.group_id, topic, partition)
        return None if stored is None else stored.offset
