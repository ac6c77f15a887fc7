"""The options that select groups and partitions, the same for every command.

`read_selection` turns the options into a `Selection` of `operations.selection`;
`choose_groups` also evaluates it, for commands that write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from coterie import client, files
from coterie import operations as ops
from coterie.cli.command import Run
from coterie.cli.output.outcome import Failure, first_names
from coterie.errors import SettingError, UnsupportedGroupType
from coterie.files import write_error, write_private_file
from coterie.types import GroupId

StateOrType = TypeVar("StateOrType", "client.GroupState", "client.GroupType")

NO_GROUP: Final = "no group is selected"
_UNSUPPORTED: Final = UnsupportedGroupType.__name__


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that select groups; `read_selection` reads them."""
    parser.add_argument("groups", metavar="GROUP", nargs="*", help="group id")
    group = parser.add_argument_group(
        "selection",
        "Group ids and patterns add groups; the other options restrict the result. "
        "Options may be repeated, and values separated by commas.",
    )
    add = group.add_argument
    add("--all", action="store_true", help="every group")
    add(
        "--regex",
        metavar="RE",
        action="append",
        help="regular expression for the whole id",
    )
    add("--glob", metavar="GLOB", action="append", help="glob for ids, as in orders-*")
    add("--file", metavar="FILE", action="append", help="file of ids; - for stdin")
    add("--exclude", metavar="GLOB", action="append", help="glob for excluded ids")
    add("--state", metavar="STATE", action="append", help="group state")
    add("--type", metavar="TYPE", action="append", help="classic, consumer, ...")
    add(
        "--protocol",
        metavar="NAME",
        action="append",
        help="protocol type: consumer, connect, ..., or simple for groups that no "
        "member ever joined",
    )
    add(
        "--topic",
        metavar="TOPIC",
        action="append",
        help="a topic that groups read; commands about partitions restrict them to it",
    )
    add("--lag", metavar="COND", help="condition on the total lag, as in '>1000'")
    add("--empty", action="store_true", help="groups without members: --state Empty")
    add(
        "--orphaned",
        action="store_true",
        help="groups with commits only for topics that no longer exist",
    )


def read_selection(
    options: argparse.Namespace, *, must_choose: bool = False
) -> ops.Selection:
    """Return the selection that the options describe. Raises SettingError.

    With `must_choose`, a selection of every group is accepted only with --all.
    """
    states = [
        _read_word(client.GroupState, "state", each) for each in _split(options.state)
    ]
    types = [
        _read_word(client.GroupType, "type", each) for each in _split(options.type)
    ]
    try:
        lag = None if options.lag is None else ops.Condition.parse(options.lag)
    except ValueError as error:
        raise SettingError(f"--lag: {error}") from None
    selection = ops.Selection(
        ids=(
            *options.groups,
            *(line for file in options.file or () for line in read_lines(file)),
        ),
        regexes=tuple(_read_regex(each) for each in options.regex or ()),
        globs=tuple(options.glob or ()),
        excludes=tuple(options.exclude or ()),
        states=frozenset(
            [*states, *([client.GroupState.EMPTY] if options.empty else [])]
        ),
        types=frozenset(types),
        # The protocol type of a simple group is empty.
        protocols=frozenset(
            "" if each == "simple" else each for each in _split(options.protocol)
        ),
        topics=frozenset(read_topics(options)),
        lag=lag,
        is_orphaned=options.orphaned,
    )
    names_groups = bool(selection.ids or selection.regexes or selection.globs)
    if options.file and not names_groups:
        raise SettingError(f"--file: {options.file[0]} contains no group id")
    if options.all and names_groups:
        raise SettingError("--all selects every group; do not name groups as well")
    if must_choose and selection.selects_all and not options.all:
        raise SettingError(
            "no group is selected; name groups, give a pattern, or use --all"
        )
    return selection


def _split(values: Iterable[str] | None) -> list[str]:
    return [part for value in values or () for part in value.split(",") if part]


def read_topics(options: argparse.Namespace) -> list[str]:
    """Return the topics of --topic. Raises SettingError for the partitions that
    kafka-consumer-groups.sh takes there."""
    for value in options.topic or ():
        topic, colon, _ = value.partition(":")
        if colon:
            form = f"--partitions {value}" if "partitions" in options else topic
            raise SettingError(
                f"--topic: {value!r} is not a topic, but partitions of {topic!r}: "
                f"write {form}"
            )
    return _split(options.topic)


def _read_regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingError(
            f"--regex: {text!r} is not a regular expression: {error}"
        ) from None


def _read_word(kind: type[StateOrType], option: str, text: str) -> StateOrType:
    """Return the state or type with this name. Raises SettingError when unknown."""
    value = kind.read(text)
    if value.name == "UNKNOWN" and text.lower() != "unknown":
        known = ", ".join(each.value for each in kind)
        raise SettingError(
            f"--{option}: unknown {option} {text!r}; {option}s are {known}"
        )
    return value


class ChosenGroups(NamedTuple):
    """The groups that a writing command changes."""

    ids: tuple[GroupId, ...]
    failures: tuple[Failure, ...]
    """Failures of groups and nodes while the selection was evaluated."""
    summary: str
    """A sentence with the number of groups and the first ids."""


async def choose_groups(run: Run) -> ChosenGroups:
    """Return the selected groups. Raises SettingError when none is named and --all is
    missing."""
    selection = read_selection(run.options, must_choose=True)
    selected = await ops.select_groups(run.admin, selection, progress=run.progress)
    ids, failures = selected.ids, selection_failures(selected)
    failed = {*selected.missing, *selected.errors}
    excluded = sorted({*selection.ids}.difference(ids, failed))
    summary = NO_GROUP
    if ids:
        verb = "groups are" if len(ids) > 1 else "group is"
        summary = f"{len(ids)} {verb} selected: {first_names(ids)}"
    if excluded:
        summary += f"; the selection options exclude {first_names(excluded)}"
    if not ids:
        failures += tuple(
            Failure("group", each, "EXCLUDED", "the selection options exclude it")
            for each in excluded
        )
    return ChosenGroups(ids, failures, summary)


def selection_failures(selected: ops.SelectionResult) -> tuple[Failure, ...]:
    """Return the failures of nodes and groups during the evaluation of a selection, and
    those of named groups that do not exist."""
    nodes = selected.node_errors.items()
    groups = selected.errors.items()
    return (
        *(
            Failure("group", each, "GROUP_ID_NOT_FOUND", "the group does not exist")
            for each in selected.missing
        ),
        *(Failure.of("node", node_id, error) for node_id, error in sorted(nodes)),
        *(Failure.of("group", group_id, error) for group_id, error in sorted(groups)),
    )


class LeftOut(NamedTuple):
    """Failures without those of groups that are left out, and the ids of these."""

    kept: tuple[Failure, ...]
    ids: tuple[GroupId, ...]


def leave_out(options: argparse.Namespace, failures: Iterable[Failure]) -> LeftOut:
    """Leave out the failures of groups whose type does not support the command.

    A share group must not fail a command about all groups; a group that the command
    line names keeps its failure.
    """
    named = getattr(options, "groups", ())
    kept, ids = [], []
    for each in failures:
        if each.code == _UNSUPPORTED and each.id not in named:
            ids.append(each.id)
        else:
            kept.append(each)
    return LeftOut(tuple(kept), tuple(ids))


async def left_out_topics(
    admin: client.AdminClient, group_ids: Collection[GroupId]
) -> tuple[str, ...]:
    """Return the warning about offsets of topics that the principal may not describe,
    if there may be any in these groups. Raises ClientError."""
    return (
        (f"warning: {ops.LEFT_OUT}",)
        if await ops.may_hide_topics(admin, group_ids)
        else ()
    )


def left_out_note(ids: Sequence[GroupId]) -> tuple[str, ...]:
    """Return the note about groups that are left out because of their type, if any."""
    if not ids:
        return ()
    count = "1 group is" if len(ids) == 1 else f"{len(ids)} groups are"
    return (
        f"{count} left out, of a type without this operation: {first_names(ids)} (name"
        " a group to get its error)",
    )


def add_partition_option(parser: argparse._ActionsContainer, text: str) -> None:
    """Declare --partitions; `read_scope` reads it."""
    parser.add_argument(
        "--partitions",
        metavar="TOPIC[:P,...]",
        action="append",
        help=f"{text}: a topic, or some of its partitions as in orders:0,1; may be "
        "repeated",
    )


def read_scope(options: argparse.Namespace) -> ops.Scope:
    """Return the partitions of --partitions; without it, those of --topic, and without
    that, all committed ones.

    Raises SettingError.
    """
    if options.partitions:
        return tuple(ops.TopicSelector.parse(each) for each in options.partitions)
    # kafka-consumer-groups.sh has the name --topic for this.
    topics = read_topics(options)
    return tuple(map(ops.TopicSelector, topics)) if topics else ops.ALL_COMMITTED


def read_text(file: str) -> str:
    """Return the text of a file, or of stdin for "-". Raises SettingError."""
    if file != "-":
        return files.read_text(Path(file))
    try:
        return files.decode_text(sys.stdin.buffer.read())
    except UnicodeDecodeError as error:
        raise SettingError("cannot read stdin: it is not UTF-8") from error


def read_lines(file: str) -> list[str]:
    """Return the lines of a file or of stdin that are not empty.

    Unlike with `str.splitlines`, only a line feed ends a line: a group id may contain
    all other characters. Raises SettingError.
    """
    lines = (line.removesuffix("\r") for line in read_text(file).split("\n"))
    return [line for line in lines if line]


def create_file(file: str, data: bytes) -> None:
    """Write a file that must not exist yet, readable by its owner only.

    Raises SettingError for a path that cannot be created, and OutputError when the data
    cannot be written, as on a full disk; no file is left then.
    """
    try:
        write_private_file(Path(file), data, must_be_new=True)
    except OSError as error:
        raise write_error(file, error) from error
