"""The options that select topics, the same for every `coterie topics` command, and the
settings of `--config`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from coterie import client
from coterie.cli.command import Run
from coterie.cli.output.outcome import Failure
from coterie.errors import SettingError
from coterie.types import TopicName

NO_TOPIC: Final = "no topic is selected"


def add_topic_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that select topics; `choose_topics` reads them."""
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="topic name")
    group = parser.add_argument_group(
        "selection", "Names and patterns add topics. Options may be repeated."
    )
    add = group.add_argument
    add("--all", action="store_true", help="every topic")
    add("--glob", metavar="GLOB", action="append", help="glob for names, as in logs-*")
    add("--exclude", metavar="GLOB", action="append", help="glob for excluded names")
    add(
        "--internal",
        action="store_true",
        help="with --all and --glob, also internal topics such as __consumer_offsets",
    )


class ChosenTopics(NamedTuple):
    """The selected topics in order of their names, and failures of others."""

    topics: tuple[client.TopicDescription, ...]
    failures: tuple[Failure, ...]

    @property
    def names(self) -> list[TopicName]:
        """The names of the topics."""
        return [each.name for each in self.topics]


def check_topic_options(options: argparse.Namespace) -> None:
    """Raise SettingError when the options select no topic."""
    if options.all and (options.topics or options.glob):
        raise SettingError("--all selects every topic; do not name topics as well")
    if not (options.all or options.topics or options.glob):
        raise SettingError(f"{NO_TOPIC}; name topics, use --glob, or --all")


async def choose_topics(run: Run) -> ChosenTopics:
    """Describe the selected topics; without a name, a pattern and --all every one.

    A named topic that does not exist is a failure; a pattern may match none.
    """
    options = run.options
    names = set(options.topics)
    has_patterns = bool(options.glob) or not names
    described = await run.admin.topics.describe(None if has_patterns else names)

    def is_chosen(name: TopicName, is_internal: bool) -> bool:
        if any(fnmatchcase(name, each) for each in options.exclude or ()):
            return False
        if name in names:
            return True
        globs = options.glob or (() if names else ("*",))
        is_visible = options.internal or not is_internal
        return is_visible and any(fnmatchcase(name, each) for each in globs)

    values, errors = dict(described.values), dict(described.errors)
    if missing := names - values.keys() - errors.keys():
        # A listing leaves out topics without an error, and those just created.
        named = await run.admin.topics.describe(missing)
        values |= named.values
        errors |= named.errors
    return ChosenTopics(
        tuple(
            each
            for name, each in sorted(values.items())
            if is_chosen(name, each.is_internal)
        ),
        tuple(
            Failure.of("topic", name, error)
            for name, error in sorted(errors.items())
            if is_chosen(name, is_internal=False)
        ),
    )


def add_config_option(
    parser: argparse.ArgumentParser, metavar: str, text: str, *, required: bool = False
) -> None:
    """Declare --config, which may be repeated."""
    parser.add_argument(
        "--config",
        metavar=metavar,
        dest="configs",
        action="append",
        required=required,
        help=f"{text}; may be repeated",
    )


def read_configs(texts: Iterable[str] | None) -> dict[str, str]:
    """Return settings from texts NAME=VALUE. Raises SettingError."""
    configs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SettingError(
                f"--config: {text!r} is not NAME=VALUE; write for example "
                "retention.ms=86400000"
            )
        configs[name] = value
    return configs
