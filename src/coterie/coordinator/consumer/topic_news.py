"""What a change of topics does to consumer groups (E15-04).

It only has them look at their topics again, at the next heartbeat of any member: that
is where the epoch is bumped, once, if what they see is other than before (E15-09).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from coterie.coordinator.consumer.changes import RefreshSet, RegexRunSet
from coterie.coordinator.consumer.group import Refresh
from coterie.coordinator.result import Change, Context, Result
from coterie.coordinator.state import State
from coterie.types import TopicName


class TopicsChanged(NamedTuple):
    """The catalog's word to every shard: these topics were made, grew, or were deleted;
    those that are `created` are also among `names`."""

    names: Collection[TopicName]
    created: Collection[TopicName] = ()


def handle(state: State, request: TopicsChanged, context: Context) -> Result:
    """Have the groups that are subscribed to the topics look at them again, and those
    that may match a new one by a regular expression resolve it again."""
    assert set(request.created) <= set(request.names)
    changes = [*_refreshes(state, request.names)]
    if request.created:
        changes += _regex_runs(state)
    return Result(changes=tuple(changes))


def _refreshes(state: State, names: Collection[TopicName]) -> Iterator[Change]:
    subscribed = (state.topic_index.groups(name) for name in names)
    for group_id in sorted({group_id for some in subscribed for group_id in some}):
        yield RefreshSet(group_id, Refresh())


def _regex_runs(state: State) -> Iterator[Change]:
    for group_id, group in state.consumer_groups.items():
        if group.regex_counts:
            yield RegexRunSet(group_id, group.regex_run._replace(due_ms=0))
