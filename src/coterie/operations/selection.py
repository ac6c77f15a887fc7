"""Selection of groups and of topic partitions.

    selection = Selection(globs=("orders-*",), states=frozenset({GroupState.EMPTY}))
    selected = await select_groups(admin, selection)

Ids and patterns are a union: a group is selected when it is named or any pattern
matches it; without any, every group is. Exclusions and filters then reduce the
selection. Ids alone are not checked with the cluster: the call that uses a missing
group reports it.

Rules of this file: brokers filter where they can. Only the remaining groups are
described, or have their offsets read, and only for a filter that needs it; `lag` is
imported then. A group whose filter could not be evaluated is not selected and has an
error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from coterie import client
from coterie.errors import (
    CoterieError,
    SettingError,
    UnsupportedByBroker,
    code_of,
)
from coterie.operations.times import read_duration_ns
from coterie.types import GroupId, TopicName, TopicPartition

if TYPE_CHECKING:
    from coterie.operations.lag import GroupLag, GroupLagReport

_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION: Final = re.compile(r"\s*(>=|<=|!=|>|<|==?)?\s*(.*?)\s*")
_NUMBER: Final = re.compile(r"[0-9][0-9_]*")
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, such as ">1000". It is false for None."""

    comparison: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse ">1000", "<=5", "=0" or "!=0"; a number alone means ">=". Raises
        ValueError."""
        comparison, bound = cls._split(text)
        if not _NUMBER.fullmatch(bound):
            raise ValueError(
                f"{text!r} is not a condition: use >1000, >=1000, <10, =0 or !=0"
            )
        return cls(comparison, int(bound))

    @classmethod
    def parse_duration(cls, text: str) -> Condition:
        """Parse ">5m", "<=1h30m" or ">PT5M" into a comparison with milliseconds; a
        duration alone means ">=". Raises ValueError."""
        comparison, bound = cls._split(text)
        try:
            return cls(comparison, read_duration_ns(bound) // _NS_PER_MS)
        except SettingError:
            raise ValueError(
                f"{text!r} is not a condition: use >5m, >=90s, <1h30m or >PT5M"
            ) from None

    @staticmethod
    def _split(text: str) -> tuple[str, str]:
        """Return the comparison and the bound of a condition."""
        found = _CONDITION.fullmatch(text)
        comparison, bound = (found[1], found[2]) if found else ("", "")
        return "=" if comparison == "==" else comparison or ">=", bound

    def holds(self, number: int | None) -> bool:
        """Return whether a number satisfies the condition."""
        return number is not None and _COMPARISONS[self.comparison](number, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of groups; the module's docstring defines how its parts combine."""

    ids: tuple[GroupId, ...] = ()
    regexes: tuple[re.Pattern[str], ...] = ()
    """Patterns for whole ids."""
    globs: tuple[str, ...] = ()
    """Case-sensitive patterns with *, ? and [...]."""
    excludes: tuple[str, ...] = ()
    """Globs of groups that are not selected."""
    states: frozenset[client.GroupState] = frozenset()
    types: frozenset[client.GroupType] = frozenset()
    protocols: frozenset[str] = frozenset()
    """Protocol types: "consumer", "connect", or "" for simple groups."""
    topics: frozenset[TopicName] = frozenset()
    """Groups with a commit for, an assigned partition of, or a subscription by name to
    one of these."""
    lag: Condition | None = None
    """A condition on the sum of the group's lag."""
    is_orphaned: bool = False
    """Whether only groups are selected that have commits, all for deleted topics."""

    @property
    def names_only(self) -> bool:
        """Whether ids alone select the groups, so that no request is needed."""
        return bool(self.ids) and not (
            self.regexes or self.globs or self.filters_listings or self.needs_lag
        )

    @property
    def selects_all(self) -> bool:
        """Whether every group is selected."""
        return self == Selection()

    @property
    def needs_lag(self) -> bool:
        """Whether filters need members and offsets of groups."""
        return bool(self.topics or self.lag or self.is_orphaned)

    @property
    def filters_listings(self) -> bool:
        """Whether filters need the listings of groups."""
        return bool(self.states or self.types or self.protocols)

    def matches(self, group_id: GroupId) -> bool:
        """Return whether ids and patterns select a group."""
        if any(fnmatchcase(group_id, pattern) for pattern in self.excludes):
            return False
        return (
            not (self.ids or self.regexes or self.globs)
            or group_id in self.ids
            or any(regex.fullmatch(group_id) for regex in self.regexes)
            or any(fnmatchcase(group_id, pattern) for pattern in self.globs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionResult:
    """The selected groups, sorted, and the errors of the selection."""

    groups: tuple[client.GroupListing, ...]
    missing: tuple[GroupId, ...] = ()
    """Named groups that the cluster does not list; empty when nothing was listed."""
    report: GroupLagReport | None = None
    """The lag of the selected groups when a filter needed it, on all topics or, when
    only `topics` filtered, on those."""
    errors: Mapping[GroupId, CoterieError] = field(default_factory=dict)
    """The errors of groups whose filter could not be evaluated."""
    node_errors: Mapping[int, CoterieError] = field(default_factory=dict)
    """The errors of nodes that could not list groups, by node id."""

    @property
    def ids(self) -> tuple[GroupId, ...]:
        """The ids of the groups."""
        return tuple(each.group_id for each in self.groups)


async def select_groups(
    admin: client.AdminClient,
    selection: Selection,
    *,
    must_list: bool = False,
    progress: client.Progress | None = None,
) -> SelectionResult:
    """Select groups; with `must_list`, only groups that the cluster lists."""
    if selection.names_only and not must_list:
        named = sorted({each for each in selection.ids if selection.matches(each)})
        return SelectionResult(
            groups=tuple(client.GroupListing(each, "") for each in named)
        )
    listings = await _listings(admin, selection)
    listed = {
        each.group_id: replace(each, type=client.GroupType.CLASSIC)
        if each.type is None and each.coordinator_id in listings.classic_only
        else each
        for each in listings.groups
    }
    matching = {key: each for key, each in listed.items() if selection.matches(key)}
    found, errors = await _filter_listings(admin, selection, matching)
    report: GroupLagReport | None = None
    if selection.needs_lag:
        lags = await _filter_by_lag(admin, selection, found, progress)
        errors |= {each.group_id: each.error for each in lags.groups if each.error}
        passed = tuple(each for each in lags.groups if not each.error)
        report = replace(lags, groups=passed)
        found = {each.group_id: found[each.group_id] for each in report.groups}
    missing: tuple[GroupId, ...] = ()
    if not (selection.states or selection.types):  # otherwise the listing is filtered
        matching_ids = {each for each in selection.ids if selection.matches(each)}
        missing = tuple(sorted(matching_ids - listed.keys()))
    return SelectionResult(
        groups=tuple(found[each] for each in sorted(found)),
        missing=missing,
        report=report,
        errors=errors,
        node_errors=listings.errors,
    )


async def _listings(
    admin: client.AdminClient, selection: Selection
) -> client.GroupListings:
    """List groups, filtered by the brokers when all of them can (E28-07)."""
    if selection.states or selection.types:
        try:
            return await admin.groups.list(
                states=selection.states, types=selection.types
            )
        except UnsupportedByBroker:
            pass
    return await admin.groups.list()


async def _filter_listings(
    admin: client.AdminClient,
    selection: Selection,
    found: Mapping[GroupId, client.GroupListing],
) -> tuple[dict[GroupId, client.GroupListing], dict[GroupId, CoterieError]]:
    """Return the groups with the selected state, type and protocol, and errors. Groups
    whose listing lacks state or type are described."""
    incomplete = [
        each.group_id
        for each in found.values()
        if (selection.states and each.state is None)
        or (selection.types and each.type is None)
    ]
    filled, errors = dict(found), dict[GroupId, CoterieError]()
    if incomplete:
        described = await admin.groups.describe(incomplete)
        filled |= {
            key: client.GroupListing(
                key,
                each.protocol_type,
                each.state,
                each.type,
                each.coordinator.node_id,
            )
            for key, each in described.values.items()
        }
        errors |= described.errors
    kept = {
        key: each
        for key, each in filled.items()
        if key not in errors
        and (not selection.states or each.state in selection.states)
        and (not selection.types or each.type in selection.types)
        and (not selection.protocols or each.protocol_type in selection.protocols)
    }
    return kept, errors


async def _filter_by_lag(
    admin: client.AdminClient,
    selection: Selection,
    found: Iterable[GroupId],
    progress: client.Progress | None,
) -> GroupLagReport:
    """Return the groups that pass the filters by topic and lag, and those with
    errors."""
    from coterie.operations.lag import group_lag

    is_all = selection.lag is not None or selection.is_orphaned
    topics = None if is_all else selection.topics
    report = await group_lag(admin, sorted(found), topics=topics, progress=progress)
    existing = await _existing_topics(admin, report.groups, selection)
    kept = tuple(
        each
        for each in report.groups
        if each.error
        or (
            (not selection.topics or reads(each, selection.topics))
            and (selection.lag is None or selection.lag.holds(each.total))
            and (not selection.is_orphaned or _is_orphaned(each, existing))
        )
    )
    return replace(report, groups=kept)


async def _existing_topics(
    admin: client.AdminClient, groups: Iterable[GroupLag], selection: Selection
) -> frozenset[TopicName]:
    """Return the committed topics that exist or that the principal may not describe."""
    if not selection.is_orphaned:
        return frozenset()
    committed = {topic for group in groups for topic in committed_topics(group)}
    if not committed:
        return frozenset()
    described = await admin.topics.describe(sorted(committed))
    hidden = {topic for topic, error in described.errors.items() if not is_gone(error)}
    return frozenset(described.values) | hidden


def is_gone(error: CoterieError) -> bool:
    """Return whether a topic's error means that the topic does not exist."""
    return code_of(error) is client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def committed_topics(group: GroupLag) -> set[TopicName]:
    """Return the topics that a group has commits for."""
    return {row.topic for row in group.rows if row.topic and row.committed is not None}


def reads(group: GroupLag, topics: Collection[TopicName]) -> bool:
    """Return whether a group has a commit, an assigned partition or a subscription for
    one of some topics."""
    members = group.description.members if group.description else ()
    subscribed = {topic for each in members for topic in each.subscribed_topics or ()}
    known = {row.topic for row in group.rows if row.topic} | subscribed
    return not known.isdisjoint(topics)


def _is_orphaned(group: GroupLag, existing: Collection[TopicName]) -> bool:
    committed = committed_topics(group)
    return bool(committed) and committed.isdisjoint(existing)


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Some partitions of a topic; None means all."""

    topic: TopicName
    partitions: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `topic` or `topic:0,1,2` (C-64). Raises SettingError."""
        topic, colon, numbers = text.partition(":")
        parts = numbers.split(",")
        if not topic or (colon and not all(_is_partition(part) for part in parts)):
            raise SettingError(f"{text!r} is not a topic or topic:0,1,2")
        if not colon:
            return cls(topic)
        return cls(topic, tuple(sorted({int(part) for part in parts})))

    def __str__(self) -> str:
        if self.partitions is None:
            return self.topic
        return f"{self.topic}:{','.join(str(each) for each in self.partitions)}"


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**31


Scope: TypeAlias = tuple[TopicSelector, ...] | None
"""The partitions that a reset changes; None is `ALL_COMMITTED`."""
ALL_COMMITTED: Final[Scope] = None
"""Every partition with a commit of the group (`--all-topics`)."""


def is_in_scope(at: TopicPartition, scope: Scope) -> bool:
    """Return whether a partition with a commit is selected."""
    return scope is None or any(
        at.topic == each.topic
        and (each.partitions is None or at.partition in each.partitions)
        for each in scope
    )


@dataclass(frozen=True, slots=True)
class ScopePartitions:
    """The partitions of a scope, and the errors of topics."""

    partitions: tuple[TopicPartition, ...]
    """Sorted."""
    errors: tuple[tuple[TopicName, CoterieError], ...] = ()


async def resolve_partitions(
    admin: client.AdminClient, selectors: Collection[TopicSelector]
) -> ScopePartitions:
    """Return the selected partitions; only whole topics need a request."""
    named = {
        TopicPartition(each.topic, partition)
        for each in selectors
        for partition in each.partitions or ()
    }
    whole = sorted({each.topic for each in selectors if each.partitions is None})
    if not whole:
        return ScopePartitions(tuple(sorted(named)))
    found = await admin.topics.describe(whole)
    for description in found.values.values():
        named.update(description.all_partitions)
    return ScopePartitions(tuple(sorted(named)), tuple(sorted(found.errors.items())))
