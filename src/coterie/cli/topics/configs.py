"""`coterie topics configs`: show, set and unset configurations of topics."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from coterie import client
from coterie.cli import command
from coterie.cli.changes import Change, show_or_write
from coterie.cli.output import outcome as out
from coterie.cli.topics import selection
from coterie.client import settings
from coterie.errors import CoterieError, SettingError
from coterie.types import TopicName

_HIDDEN: Final = "(hidden)"


def _declare_show(parser: argparse.ArgumentParser) -> None:
    selection.add_topic_options(parser)
    selection.add_config_option(parser, "NAME", "name of a configuration")
    parser.add_argument(
        "--defaults", action="store_true", help="also configurations with the default"
    )


def show_configs(options: argparse.Namespace) -> int:
    """Show configurations of the selected topics. Raises SettingError."""
    selection.check_topic_options(options)
    return command.run_on_cluster(options, _show_configs)


async def _show_configs(run: command.Run) -> out.Outcome:
    """Return a row for each configuration."""
    options = run.options
    chosen = await selection.choose_topics(run)
    described = await run.admin.configs.describe(
        (
            client.ConfigResource(client.ConfigResourceType.TOPIC, each)
            for each in chosen.names
        ),
        names=options.configs,
        with_synonyms=True,
        # It is long text with HTML, for programs only.
        with_documentation=options.output in {"json", "jsonl"},
        progress=run.progress,
    )
    has_defaults = options.defaults or options.configs
    items = tuple(
        _config_item(resource.name, entry)
        for resource, entries in described.values.items()
        for entry in entries
        if has_defaults or not entry.is_default
    )
    return out.Outcome(
        schema="coterie.topic.config",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("config", "CONFIG", role=out.Role.IDENTITY),
            out.Column("value", "VALUE", role=out.Role.TEXT),
            out.Column("source", "SOURCE"),
            out.Column("type", "TYPE", is_wide=True),
            out.Column("read_only", "READ-ONLY", is_wide=True),
            out.Column("sensitive", "SENSITIVE", is_wide=True),
            out.Column("synonyms", "SYNONYMS", is_wide=True, role=out.Role.TEXT),
            out.Column("error", "ERROR", is_wide=True, show=out.show_error),
        ),
        items=items,
        failures=(
            *chosen.failures,
            *(
                out.Failure.of("topic", resource.name, error)
                for resource, error in described.errors.items()
            ),
        ),
        summary={"configs": len(items)},
        notes=() if items else ("every configuration has the default: use --defaults",),
    )


def _config_item(topic: TopicName, entry: client.ConfigEntry) -> out.Item:
    return {
        "topic": topic,
        "config": entry.name,
        "value": _HIDDEN if entry.is_sensitive else entry.value,
        "source": entry.source.name.lower(),
        "type": entry.type.name.lower(),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [
            f"{each.name}={_HIDDEN if entry.is_sensitive else each.value} "
            f"({each.source.name.lower()})"
            for each in entry.synonyms
        ],
        "documentation": entry.documentation,
        "error": None,
    }


SHOW: Final = command.Command(
    description="""\
Show configurations of topics, with the source of each value.

Without --config and --defaults, only those that differ from Kafka's default. Values of
sensitive configurations are hidden. --wide adds types and SYNONYMS: the values in every
source, by precedence. JSON has Kafka's documentation, too.
""",
    examples="""\
examples:
  coterie topics configs show orders
      what was changed
  coterie topics configs show --all --config retention.ms
      one configuration of every topic
  coterie topics configs show orders --defaults --output json
      every configuration, for programs

exit codes: 0 success, 1 something could not be read, 2 usage error
""",
    options=(_declare_show, *command.CLUSTER_OPTIONS),
    run=show_configs,
)


def _declare_set(parser: argparse.ArgumentParser) -> None:
    selection.add_topic_options(parser)
    selection.add_config_option(
        parser, "NAME=VALUE", "configuration to set", required=True
    )


def _declare_unset(parser: argparse.ArgumentParser) -> None:
    selection.add_topic_options(parser)
    selection.add_config_option(parser, "NAME", "configuration to unset", required=True)


def set_configs(options: argparse.Namespace) -> int:
    """Show a change of configurations, or write it. Raises SettingError."""
    selection.check_topic_options(options)
    changes = selection.read_configs(options.configs)
    return command.run_on_cluster(options, partial(_change_configs, changes, "set"))


def unset_configs(options: argparse.Namespace) -> int:
    """Show the configurations to unset, or unset them. Raises SettingError."""
    selection.check_topic_options(options)
    for name in options.configs:
        if "=" in name:
            raise SettingError(f"--config: {name!r} has a value; write the name only")
    changes = dict.fromkeys(options.configs)
    return command.run_on_cluster(options, partial(_change_configs, changes, "unset"))


async def _change_configs(
    changes: Mapping[str, str | None], done: str, run: command.Run
) -> out.Outcome:
    chosen = await selection.choose_topics(run)
    resources = {
        each: client.ConfigResource(client.ConfigResourceType.TOPIC, each)
        for each in chosen.names
    }
    described = await run.admin.configs.describe(
        resources.values(),
        # Brokers accept to unset a name that does not exist: compare it with all.
        names=None if done == "unset" else changes,
    )
    current = {
        (resource.name, entry.name): _HIDDEN if entry.is_sensitive else entry.value
        for resource, entries in described.values.items()
        for entry in entries
    }

    refused = {
        resource.name: error
        for resource, entries in described.values.items()
        if done == "unset"
        and (error := _unknown_config(changes, {each.name for each in entries}))
    }

    async def send(
        names: Collection[TopicName], validate_only: bool = False
    ) -> dict[TopicName, CoterieError]:
        results = await run.admin.configs.alter(
            {resources[name]: changes for name in names}, validate_only=validate_only
        )
        return {each.name: error for each, error in results.errors.items()}

    change = Change(
        unit="topics",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("config", "CONFIG", role=out.Role.IDENTITY),
            out.Column("value", "VALUE", role=out.Role.TEXT),
            out.Column("new_value", "NEW-VALUE", role=out.Role.TEXT),
        ),
        rows=[
            (
                topic,
                {
                    "topic": topic,
                    "config": name,
                    "value": current.get((topic, name)),
                    "new_value": "(default)" if value is None else value,
                },
            )
            for topic in resources
            for name, value in changes.items()
        ],
        done=done,
        question="Write these configurations?",
        send=send,
        validate=partial(send, validate_only=True),
        failures=chosen.failures,
        refused=refused,
    )
    return await show_or_write(run, change)


def _unknown_config(
    names: Collection[str], known: Collection[str]
) -> client.ApiError | None:
    """Return the error of the first name that topics do not have."""
    for name in names:
        if name not in known:
            near = settings.nearest(name, known)
            hint = "" if near is None else f"; did you mean {near!r}?"
            return client.ApiError(
                client.ErrorCode.INVALID_CONFIG,
                f"topics have no configuration {name!r}{hint}",
            )
    return None


SET: Final = command.Command(
    description="""\
Set configurations of topics. Others are not changed (KIP-339).

Without --execute, the brokers validate the change, and it is only shown.
""",
    examples="""\
examples:
  coterie topics configs set orders --config retention.ms=86400000
      validate and show the change
  coterie topics configs set --glob 'logs-*' --config segment.ms=3600000 --execute
      several topics, after a question at a terminal
  coterie topics configs set users --config cleanup.policy=compact,delete --yes
      in a script

exit codes: 0 success, 1 a topic could not be changed, 2 usage error
""",
    options=(_declare_set, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=set_configs,
)

UNSET: Final = command.Command(
    description="""\
Remove configurations of topics, so that the broker's value has effect again.

Without --execute, the brokers validate the change, and it is only shown.
""",
    examples="""\
examples:
  coterie topics configs unset orders --config retention.ms
      show the current value
  coterie topics configs unset orders --config retention.ms --execute
      remove it, after a question at a terminal

exit codes: 0 success, 1 a topic could not be changed, 2 usage error
""",
    options=(_declare_unset, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=unset_configs,
)
