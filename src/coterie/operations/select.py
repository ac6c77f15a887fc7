"""Which groups an operator means: by name, by pattern, by what they are and read.

    selection = Selection(globs=("orders-*",), states=frozenset({GroupState.EMPTY}))
    selected = await select_groups(admin, selection)

Names and patterns add up: a group is meant when it is named, or when any pattern
matches it; without any, every group is. Exclusions and filters then take away: all of
them must be passed. Names alone are taken at their word, and nobody is asked: whoever
uses such a group hears that it is missing.

Rules of this file: what the brokers can filter, they do; only what is left is described
or has its offsets read, and only for a filter that takes it; `lag` is imported then. A
group that a filter could not judge is not selected, and its error is in `errors`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
)
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.operations.admin import GroupReader, Progress
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode

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
_CONDITION: Final = re.compile(r"\s*(>=|<=|!=|>|<|==?)?\s*([0-9][0-9_]*)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, as in ">1000". What is unknown never fulfils it."""

    comparison: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read ">1000", "<=5", "=0" or "!=0"; a bare number means at least that many.
        Raises ValueError."""
        if not (found := _CONDITION.fullmatch(text)):
            raise ValueError(
                f"{text!r} is no condition: say >1000, >=1000, <10, =0 or !=0"
            )
        comparison = found[1] or ">="
        return cls("=" if comparison == "==" else comparison, int(found[2]))

    def holds(self, number: int | None) -> bool:
        """Whether it is true of a number."""
        return number is not None and _COMPARISONS[self.comparison](number, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which groups are meant. See the module's docstring for how parts combine."""

    ids: tuple[GroupId, ...] = ()
    regexes: tuple[re.Pattern[str], ...] = ()
    """Each must match the whole id."""
    globs: tuple[str, ...] = ()
    """With *, ? and [...], as a shell has them; case counts."""
    excludes: tuple[str, ...] = ()
    """Globs of groups that are not meant, whatever else says so."""
    states: frozenset[GroupState] = frozenset()
    types: frozenset[GroupType] = frozenset()
    protocols: frozenset[str] = frozenset()
    """Protocol types: "consumer", "connect", or "" for simple groups."""
    topics: frozenset[TopicName] = frozenset()
    """Groups that committed for one of these, own a partition of it, or subscribed to
    it by name."""
    lag: Condition | None = None
    """About the sum of the lag over the group's partitions."""
    is_orphaned: bool = False
    """Only groups that have commits, all of them for topics which are gone."""

    @property
    def is_by_name(self) -> bool:
        """Whether names are all there is to it, so that nobody need be asked."""
        return bool(self.ids) and not (
            self.regexes or self.globs or self.filters_listings or self.takes_lag
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it down."""
        return self == Selection()

    @property
    def takes_lag(self) -> bool:
        """Whether it takes members and offsets to judge a group."""
        return bool(self.topics or self.lag or self.is_orphaned)

    @property
    def filters_listings(self) -> bool:
        """Whether it asks for what a list of groups says of each."""
        return bool(self.states or self.types or self.protocols)

    def means(self, group_id: GroupId) -> bool:
        """Whether its name is one that is meant."""
        if any(fnmatchcase(group_id, pattern) for pattern in self.excludes):
            return False
        return (
            not (self.ids or self.regexes or self.globs)
            or group_id in self.ids
            or any(regex.fullmatch(group_id) for regex in self.regexes)
            or any(fnmatchcase(group_id, pattern) for pattern in self.globs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The groups that were meant, sorted, and what could not be found out."""

    groups: tuple[GroupListing, ...]
    missing: tuple[GroupId, ...] = ()
    """Groups that were named, and that the cluster does not list; only known when it
    was asked for a list."""
    report: GroupLagReport | None = None
    """What was found of the selected groups, when a filter took it: about all that
    they read, or about the topics that were asked for when only these matter."""
    errors: Mapping[GroupId, CoterieError] = field(default_factory=dict)
    """Of groups that a filter could not judge."""
    node_errors: Mapping[int, CoterieError] = field(default_factory=dict)
    """Of nodes that could not say which groups they have, by node id."""

    @property
    def ids(self) -> tuple[GroupId, ...]:
        """Their ids."""
        return tuple(each.group_id for each in self.groups)


async def select_groups(
    admin: GroupReader,
    selection: Selection,
    *,
    must_list: bool = False,
    progress: Progress | None = None,
) -> Selected:
    """The groups that are meant; with `must_list`, only such as the cluster lists."""
    if selection.is_by_name and not must_list:
        named = sorted({each for each in selection.ids if selection.means(each)})
        return Selected(groups=tuple(GroupListing(each, "") for each in named))
    listings = await _listings(admin, selection)
    listed = {each.group_id: each for each in listings.groups}
    meant = {key: each for key, each in listed.items() if selection.means(key)}
    found, errors = await _filtered(admin, selection, meant)
    report: GroupLagReport | None = None
    if selection.takes_lag:
        judged = await _judged(admin, selection, found, progress)
        errors |= {each.group_id: each.error for each in judged.groups if each.error}
        passed = tuple(each for each in judged.groups if not each.error)
        report = replace(judged, groups=passed)
        found = {each.group_id: found[each.group_id] for each in report.groups}
    return Selected(
        groups=tuple(found[each] for each in sorted(found)),
        missing=_missing(selection, listed),
        report=report,
        errors=errors,
        node_errors=listings.errors,
    )


def _missing(
    selection: Selection, listed: Mapping[GroupId, GroupListing]
) -> tuple[GroupId, ...]:
    """Nothing can be said when brokers listed only what passes a filter."""
    if selection.states or selection.types:
        return ()
    named = (each for each in selection.ids if selection.means(each))
    return tuple(sorted({each for each in named if each not in listed}))


async def _listings(admin: GroupReader, selection: Selection) -> GroupListings:
    """The brokers filter when they can (E28-07); others list everything."""
    if selection.states or selection.types:
        try:
            return await admin.list_groups(
                states=selection.states, types=selection.types
            )
        except UnsupportedByBroker:
            pass
    return await admin.list_groups()


async def _filtered(
    admin: GroupReader, selection: Selection, found: Mapping[GroupId, GroupListing]
) -> tuple[dict[GroupId, GroupListing], dict[GroupId, CoterieError]]:
    """Without the groups whose state, type or protocol is another. Where the list did
    not say, the group is described."""
    vague = [
        each.group_id
        for each in found.values()
        if (selection.states and each.state is None)
        or (selection.types and each.type is None)
    ]
    filled, errors = dict(found), dict[GroupId, CoterieError]()
    if vague:
        described = await admin.describe_groups(vague)
        filled |= {key: _listing(each) for key, each in described.values.items()}
        errors |= described.errors
    kept = {
        key: each
        for key, each in filled.items()
        if key not in errors and _passes(each, selection)
    }
    return kept, errors


def _listing(described: GroupDescription) -> GroupListing:
    return GroupListing(
        described.group_id,
        described.protocol_type,
        described.state,
        described.type,
        described.coordinator.node_id,
    )


def _passes(group: GroupListing, selection: Selection) -> bool:
    return (
        (not selection.states or group.state in selection.states)
        and (not selection.types or group.type in selection.types)
        and (not selection.protocols or group.protocol_type in selection.protocols)
    )


async def _judged(
    admin: GroupReader,
    selection: Selection,
    found: Iterable[GroupId],
    progress: Progress | None,
) -> GroupLagReport:
    """Those that pass the filters about what a group reads and how far it is, and
    those of which that could not be found out."""
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
    admin: GroupReader, groups: Iterable[GroupLag], selection: Selection
) -> frozenset[TopicName]:
    """Topics that are there, or may be: one that we may not see is not gone."""
    if not selection.is_orphaned:
        return frozenset()
    committed = {topic for group in groups for topic in committed_topics(group)}
    if not committed:
        return frozenset()
    described = await admin.describe_topics(sorted(committed))
    hidden = {topic for topic, error in described.errors.items() if not is_gone(error)}
    return frozenset(described.values) | hidden


def is_gone(error: CoterieError) -> bool:
    """Whether an error about a topic means that there is none of that name."""
    return (
        isinstance(error, ApiError)
        and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def committed_topics(group: GroupLag) -> set[TopicName]:
    """The topics that a group committed for."""
    return {row.topic for row in group.rows if row.topic and row.committed is not None}


def reads(group: GroupLag, topics: Collection[TopicName]) -> bool:
    """Whether a group committed for one of some topics, owns some of it, or said that
    it subscribes to it."""
    members = group.description.members if group.description else ()
    subscribed = {topic for each in members for topic in each.subscribed_topics or ()}
    seen = {row.topic for row in group.rows if row.topic} | subscribed
    return not seen.isdisjoint(topics)


def _is_orphaned(group: GroupLag, existing: Collection[TopicName]) -> bool:
    committed = committed_topics(group)
    return bool(committed) and committed.isdisjoint(existing)
