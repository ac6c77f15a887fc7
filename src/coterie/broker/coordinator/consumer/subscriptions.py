"""Resolve regular expressions of subscriptions, and react to changes of topics.

Expressions use RE2, as Kafka uses RE2/J: matching takes time linear in the
name, whatever the expression, and RE2 refuses expressions that would take longer.

A heartbeat with an expression gets its response immediately. A timer resolves all
expressions of the group against one version of the topics, writes the matches (record
16), and bumps the group epoch if they changed. A group has one
resolution at a time, and at most one in ten seconds.

A change of topics only makes the subscribed groups refresh their metadata at the next
heartbeat of any member, which bumps the epoch once if the hash changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import re2

from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.draft import (
    ConsumerDraft,
    RefreshSet,
    RegexScheduleSet,
)
from coterie.broker.coordinator.consumer.group import (
    ConsumerGroup,
    Refresh,
    RegexSchedule,
    ResolvedRegex,
)
from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.consumer.timers import ResolveRegexes
from coterie.broker.coordinator.result import Change, Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.java import re2j_description
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False  # the response to the member contains the error
    options.never_capture = True
    return options


_OPTIONS: Final = _options()

_TOKENS: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|.", re.DOTALL)
"""A quotation, an escape sequence or another character of an expression."""
_ANY_BYTE: Final = r"\C"
"""An escape sequence that RE2/J does not have."""


def check_regex(text: str) -> None:
    """Check that the text is a regular expression.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION, with the description of RE2/J.
    """
    assert text, "an empty expression is not a subscription"
    reason = _compile_error(text)
    if reason is None and _ANY_BYTE in _TOKENS.findall(text):
        reason = "invalid escape sequence"
    if reason is None:
        return
    raise ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.",
    )


def _compile_error(text: str) -> str | None:
    try:
        re2.compile(text, _OPTIONS)
    except re2.error as error:
        return re2j_description(error.args[0])
    return None


def matching(
    regexes: Collection[str], topic_names: Iterable[TopicName]
) -> dict[str, list[TopicName]]:
    """Return the sorted topics that each expression matches as a whole.

    Internal topics match too. An invalid expression, which another broker may have
    written to the log, matches nothing.
    """
    names = sorted(topic_names)
    ordered = list(regexes)
    combined = _as_set(ordered)
    if combined is None:
        return {regex: _one_by_one(regex, names) for regex in ordered}
    found: dict[str, list[TopicName]] = {regex: [] for regex in ordered}
    for name in names:
        for index in combined.Match(name) or ():
            found[ordered[index]].append(name)
    return found


def _as_set(regexes: Collection[str]) -> re2.Set | None:
    """Return one automaton for all expressions; None when it would be too large."""
    together = re2.Set.FullMatchSet(_OPTIONS)
    try:
        for regex in regexes:
            together.Add(regex)
        together.Compile()
    except re2.error:
        return None
    return together


def _one_by_one(regex: str, names: Iterable[TopicName]) -> list[TopicName]:
    try:
        compiled = re2.compile(regex, _OPTIONS)
    except re2.error:
        return []
    return [name for name in names if compiled.fullmatch(name)]


MIN_INTERVAL_MS: Final = 10_000
"""The least time between two resolutions of a group, Kafka's
`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`."""


def update_regex(draft: ConsumerDraft, before: Member, member: Member) -> None:
    """Apply a change of the member's expression, and schedule a resolution if one is
    due.

    One is due when this member's expression or any other is not resolved, or the
    refresh interval of the group has passed. The cost does not depend on the
    size of the group.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    regex = member.topic_regex
    if regex != before.topic_regex:
        if regex:
            check_regex(regex)
        draft.delete_regex_if_unused(before.topic_regex)
    group, now_ms = draft.group, draft.context.now_ms
    is_due = bool(group.regex_counts) and now_ms >= group.regex_schedule.due_ms
    if is_due or group.has_unresolved or not group.is_resolved(regex):
        _schedule_resolution(draft)


def _schedule_resolution(draft: ConsumerDraft) -> None:
    """Set the timer of a resolution, unless one is set that has not failed.

    A resolution that wrote nothing within its interval had a batch too large for the
    log, and is retried.
    """
    group, now_ms = draft.group, draft.context.now_ms
    run = group.regex_schedule
    # Kafka's interval starts with a resolved expression: the first one need not wait.
    if group.regexes and now_ms < run.earliest_ms:
        return
    if run.planned_ms is not None and now_ms < run.planned_ms + MIN_INTERVAL_MS:
        return
    draft.set(timers.regex_timer(draft.group_id, now_ms, draft.context))
    draft.make(RegexScheduleSet(draft.group_id, run._replace(planned_ms=now_ms)))


def resolve_regexes(state: State, request: ResolveRegexes, context: Context) -> Result:
    """Resolve all expressions of a group; the next heartbeat computes the target."""
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return Result()
    draft = ConsumerDraft(group, context)
    is_written = is_other = False
    for regex, resolved in _resolve(group, request, context).items():
        known = group.regexes.get(regex)
        if known is None or known.topics != resolved.topics:
            draft.put_regex(regex, resolved)
            is_written = True
            is_other |= known is not None or bool(resolved.topics)
    # A member that replaced its expression by one without matches lost topics too.
    if is_written and (draft.refresh_topics() or is_other):
        draft.bump()
    interval_ms = context.environment.settings.group_consumer_regex_refresh_interval_ms
    now_ms = context.now_ms
    run = RegexSchedule(now_ms + interval_ms, now_ms + MIN_INTERVAL_MS)
    draft.make(RegexScheduleSet(group.group_id, run))
    return draft.result()


def _resolve(
    group: ConsumerGroup, request: ResolveRegexes, context: Context
) -> dict[str, ResolvedRegex]:
    """Return the matches that the member that triggered the request is authorized to
    describe."""
    topics = context.environment.topics
    found = matching(sorted(group.regex_counts), topics.topic_names())
    matched = {name for names in found.values() for name in names}
    authorized = {name for name in matched if request.may_describe(name)}
    return {
        regex: ResolvedRegex(
            tuple(name for name in names if name in authorized),
            topics.version,
            context.now_ms,
        )
        for regex, names in found.items()
    }


class TopicsChanged(NamedTuple):
    """The request that is broadcast to all shards after topics were created, changed or
    deleted.

    The `created` topics are also part of `names`.
    """

    names: Collection[TopicName]
    created: Collection[TopicName] = ()


def handle_topics_changed(
    state: State, request: TopicsChanged, context: Context
) -> Result:
    """Schedule metadata refreshes and resolutions of expressions in the affected
    groups."""
    assert set(request.created) <= set(request.names)
    subscribed = (state.topic_index.groups(name) for name in request.names)
    group_ids = sorted({group_id for some in subscribed for group_id in some})
    changes: list[Change] = [RefreshSet(group_id, Refresh()) for group_id in group_ids]
    if request.created:
        changes += [
            RegexScheduleSet(group_id, group.regex_schedule._replace(due_ms=0))
            for group_id, group in state.consumer_groups.items()
            if group.regex_counts
        ]
    return Result(changes=tuple(changes))
