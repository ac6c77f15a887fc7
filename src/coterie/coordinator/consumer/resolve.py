"""Which topics a group's regular expressions stand for (E14).

A heartbeat that brings an expression is answered at once. A timer sets a run off beside
it, which looks at all expressions of the group and at one version of the topics, writes
down what they match (record 16), and bumps the group epoch if that is news (E14-05,
E14-07). A group has one run at a time, and at most one in ten seconds (E14-06).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.changes import RegexRunSet
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup, RegexRun, ResolvedRegex
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.regex import check_regex, matching
from coterie.coordinator.consumer.timers import ResolveRegexes
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State

MIN_INTERVAL_MS: Final = 10_000
"""From one run of a group to its next at least; Kafka's constant."""


def take_regex(draft: Draft, before: Member, member: Member) -> None:
    """Take in what a heartbeat says of regular expressions, and plan a run if one is
    due: because this member's is not resolved, or the group's are to be looked at again
    (E14-06). Costs the same whatever the size of the group.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION (E14-04).
    """
    regex = member.topic_regex
    if regex != before.topic_regex:
        if regex:
            check_regex(regex)
        draft.forget_regex(before.topic_regex)
    group, now_ms = draft.group, draft.context.now_ms
    is_due = bool(group.regex_counts) and now_ms >= group.regex_run.due_ms
    if is_due or not group.is_resolved(regex):
        _plan_run(draft)


def _plan_run(draft: Draft) -> None:
    """Set a run, unless one is set that has not failed: one that wrote nothing in its
    time was too large for the log, and is tried again."""
    group, now_ms = draft.group, draft.context.now_ms
    run = group.regex_run
    if run.planned_ms is not None and now_ms < run.planned_ms + MIN_INTERVAL_MS:
        return
    # Kafka counts from what it has resolved: whoever is alone need not wait.
    has_resolved = any(map(draft.is_subscribed_by, group.regexes))
    at_ms = max(now_ms, run.earliest_ms) if has_resolved else now_ms
    draft.set(timers.regex_timer(draft.group_id, at_ms, draft.context))
    draft.make(RegexRunSet(draft.group_id, run._replace(planned_ms=at_ms)))


def handle(state: State, request: ResolveRegexes, context: Context) -> Result:
    """Resolve all expressions of a group; the next heartbeat of anyone makes the target
    that follows from it."""
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return Result()
    draft = Draft(group, context)
    is_written = is_other = False
    for regex, resolved in _resolve(group, request, context).items():
        known = group.regexes.get(regex)
        if known is None or known.topics != resolved.topics:
            draft.put_regex(regex, resolved)
            is_written = True
            is_other |= known is not None or bool(resolved.topics)
    # Who gave up one expression for another that matches nothing left topics, too.
    if is_written and (draft.look_at_topics() or is_other):
        draft.bump()
    interval_ms = context.settings.group_consumer_regex_refresh_interval_ms
    now_ms = context.now_ms
    run = RegexRun(now_ms + interval_ms, now_ms + MIN_INTERVAL_MS)
    draft.make(RegexRunSet(group.group_id, run))
    return draft.result()


def _resolve(
    group: ConsumerGroup, request: ResolveRegexes, context: Context
) -> dict[str, ResolvedRegex]:
    """What each expression matches of the topics that the member may know of."""
    topics = context.topics
    found = matching(sorted(group.regex_counts), topics.topic_names())
    matched = {name for names in found.values() for name in names}
    known_of = {name for name in matched if request.may_describe(name)}
    return {
        regex: ResolvedRegex(
            tuple(name for name in names if name in known_of),
            topics.version,
            context.now_ms,
        )
        for regex, names in found.items()
    }
