"""The options that say which groups a command is about, the same for every verb, and
the sentence that says which they were."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from coterie.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.cli.output.values import Failure
    from coterie.client.admin.group_values import GroupState, GroupType
    from coterie.operations.select import Selected, Selection
    from coterie.types import GroupId

NO_GROUP: Final = "no group is selected"
_NAMED_MAX: Final = 5
"""How many groups a sentence names."""


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Declare which groups are meant; `read_selection` reads it."""
    parser.add_argument("groups", metavar="GROUP", nargs="*", help="a group's id")
    group = parser.add_argument_group(
        "selection",
        "Names and patterns add up; what follows them takes away. Options may be "
        "repeated, and values separated by commas.",
    )
    more = group.add_argument
    more("--all", action="store_true", help="every group")
    more("--regex", metavar="RE", action="append", help="ids that match it as a whole")
    more("--glob", metavar="GLOB", action="append", help="ids like orders-*")
    more("--file", metavar="FILE", action="append", help="ids, one a line; - is stdin")
    more("--exclude", metavar="GLOB", action="append", help="but none of these")
    more("--state", metavar="STATE", action="append", help="in one of these states")
    more("--type", metavar="TYPE", action="append", help="classic, consumer, ...")
    more(
        "--protocol",
        metavar="NAME",
        action="append",
        help="protocol type: consumer, connect, ..., or simple for groups that nobody "
        "ever joined",
    )
    more("--topic", metavar="TOPIC", action="append", help="that read this topic")
    more("--lag", metavar="COND", help="whose lag over all partitions is '>1000', ...")
    more("--empty", action="store_true", help="without members: --state Empty")
    more(
        "--orphaned",
        action="store_true",
        help="with commits, but only for topics that are gone",
    )


def read_selection(
    options: argparse.Namespace, *, must_choose: bool = False
) -> Selection:
    """Which groups the options mean. With `must_choose`, every group is only meant
    when --all says so. Raises SettingError."""
    from coterie.client.admin.group_values import GroupState
    from coterie.operations.select import Condition, Selection

    states = [_state(each) for each in _listed(options.state)]
    types = [_type(each) for each in _listed(options.type)]
    protocols = _listed(options.protocol)
    try:
        lag = None if options.lag is None else Condition.parse(options.lag)
    except ValueError as error:
        raise SettingError(f"--lag: {error}") from None
    selection = Selection(
        ids=(*options.groups, *_ids_in(options.file or ())),
        regexes=tuple(_regex(each) for each in options.regex or ()),
        globs=tuple(options.glob or ()),
        excludes=tuple(options.exclude or ()),
        states=frozenset([*states, *([GroupState.EMPTY] if options.empty else [])]),
        types=frozenset(types),
        protocols=frozenset("" if each == "simple" else each for each in protocols),
        topics=frozenset(_listed(options.topic)),
        lag=lag,
        is_orphaned=options.orphaned,
    )
    _check_choice(options, selection, must_choose=must_choose)
    return selection


def _check_choice(
    options: argparse.Namespace, selection: Selection, *, must_choose: bool
) -> None:
    if options.file and not (selection.ids or selection.regexes or selection.globs):
        raise SettingError(f"--file: there is no group's id in {options.file[0]}")
    if options.all and (selection.ids or selection.regexes or selection.globs):
        raise SettingError("--all means every group; name none besides")
    if must_choose and selection.is_everything and not options.all:
        raise SettingError(
            "no group was chosen; name some, give a pattern, or say --all"
        )


def _listed(values: Iterable[str] | None) -> list[str]:
    """The values of an option that may be repeated, each with commas in it."""
    return [part for value in values or () for part in value.split(",") if part]


def _ids_in(files: Iterable[str]) -> list[str]:
    from coterie.cli.groups.files import read_text

    return [line for file in files for line in read_text(file).splitlines() if line]


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingError(f"--regex: {text!r} is none: {error}") from None


def _state(text: str) -> GroupState:
    from coterie.client.admin.group_values import GroupState

    state = GroupState.read(text)
    if state is GroupState.UNKNOWN and text.lower() != "unknown":
        known = ", ".join(each.value for each in GroupState)
        raise SettingError(f"--state: there is no {text!r}; states are {known}")
    return state


def _type(text: str) -> GroupType:
    from coterie.client.admin.group_values import GroupType

    kind = GroupType.read(text)
    if kind is GroupType.UNKNOWN and text.lower() != "unknown":
        known = ", ".join(each.value for each in GroupType)
        raise SettingError(f"--type: there is no {text!r}; types are {known}")
    return kind


def said(selected: Selected) -> str:
    """One sentence that says how many groups were selected, and names the first."""
    ids = selected.ids
    if not ids:
        return NO_GROUP
    are = "groups are" if len(ids) > 1 else "group is"
    return f"{len(ids)} {are} selected: {first_names(ids)}"


def first_names(ids: Sequence[GroupId]) -> str:
    """Some groups, by the names of the first."""
    rest = len(ids) - _NAMED_MAX
    return ", ".join(ids[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def selection_failures(selected: Selected) -> tuple[Failure, ...]:
    """What could not be found out while selecting."""
    from coterie.cli.output.values import Failure

    nodes = selected.node_errors.items()
    groups = selected.errors.items()
    return (
        *(Failure.of("node", node_id, error) for node_id, error in sorted(nodes)),
        *(Failure.of("group", group_id, error) for group_id, error in sorted(groups)),
    )
