"""Shell completion: the scripts of `coterie completion`, and their candidates.

    coterie complete -- groups describe or

prints the candidates for the last word, which may be empty, one per line. Options and
their values come from the command's own parser, so they are never out of date. Names of
groups and topics are fetched from the cluster, with a timeout of 1.5 s.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command
from coterie.cli.registry import COMMANDS, Entry, find_command

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient

_TIMEOUT_MS: Final = 1_500
_GROUPS: Final = "groups"
_TOPICS: Final = "topics"
_TOPIC_CONFIGS: Final = "topic configs"
_NAME_KINDS: Final = {
    "GROUP": _GROUPS,
    "--group": _GROUPS,
    "TOPIC": _TOPICS,
    "--topic": _TOPICS,
}
"""The kind of name that an argument takes, by its metavar or its option."""

_BASH: Final = r"""
_coterie() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "$line")")
    done < <(coterie complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o nosort -F _coterie coterie
"""

_ZSH: Final = r"""
#compdef coterie
_coterie() {
    local -a found
    found=("${(@f)$(coterie complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then
        compadd -- $found
    else
        _files
    fi
}
# Loaded from $fpath this file is the function; from `source` it registers one.
if [[ ${funcstack[1]} == _coterie ]]; then
    _coterie "$@"
else
    compdef _coterie coterie
fi
"""

_FISH: Final = r"""
function __coterie_complete
    set -l words (commandline -opc) (commandline -ct)
    coterie complete -- $words[2..-1] 2>/dev/null
end
complete -c coterie -a '(__coterie_complete)'
"""

SCRIPTS: Final = {
    shell: script.lstrip()
    for shell, script in (("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH))
}
"""The completion script of each shell, which a wheel installs too."""


def _declare_shell(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="name of the shell")


def print_script(options: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    sys.stdout.write(SCRIPTS[options.shell])
    return 0


COMPLETION: Final = Command(
    description="""\
Print the completion script of a shell. It completes commands, options and their values,
and the names of groups and topics that exist on the cluster at that moment.

The cluster is the one of the command line being typed, of the environment, or of a
profile. When it does not respond in 1.5 s, no names are offered.
""",
    examples="""\
examples:
  source <(coterie completion bash)
      in ~/.bashrc
  source <(coterie completion zsh)
      in ~/.zshrc, after compinit
  coterie completion fish | source
      in ~/.config/fish/config.fish
""",
    options=(_declare_shell,),
    run=print_script,
)


def print_candidates(arguments: Sequence[str]) -> int:
    """Run `coterie complete`: print the candidates for the last word."""
    from coterie.cli.output.tables import encodable

    words = list(arguments[1:] if arguments[:1] == ["--"] else arguments) or [""]
    for each in sorted(set(candidates(words))):
        # A name with a line feed or an escape sequence cannot be a line of the list,
        # nor one that the encoding of the terminal does not have.
        if each.isprintable() and encodable(each, sys.stdout.encoding) == each:
            sys.stdout.write(f"{each}\n")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Return the possible completions of the last word."""
    *before, typed = words
    entry = find_command(before)
    offered = (
        _next_words(before)
        if entry is None
        else _arguments(entry, before[len(entry.words) :], typed)
    )
    return [each for each in offered if each.startswith(typed)]


def _next_words(before: Sequence[str]) -> list[str]:
    at = len(before)
    return [
        each.words[at]
        for each in COMMANDS
        if not each.is_hidden and each.words[:at] == before and len(each.words) > at
    ]


def _arguments(entry: Entry, before: Sequence[str], typed: str) -> Iterable[str]:
    """Return the option names or values that may follow the arguments of a command."""
    last = before[-1] if before else ""
    if entry.parses_itself:
        return _names_on_cluster(_NAME_KINDS.get(last), before)
    from coterie.cli.parser import arguments_of

    _, actions = arguments_of(entry)
    option = next((each for each in actions if last in each.option_strings), None)
    if option is not None and option.nargs != 0:
        kind = _NAME_KINDS.get(last)
        if entry.words[0] == _TOPICS and last == "--config":
            kind = _TOPIC_CONFIGS
        return _choices(option) or _names_on_cluster(kind, before)
    if typed.startswith("-"):
        return [name for each in actions for name in each.option_strings]
    positional = next((each for each in actions if not each.option_strings), None)
    if positional is None:
        return ()
    kind = _NAME_KINDS.get(str(positional.metavar))
    return _choices(positional) or _names_on_cluster(kind, before)


def _choices(action: argparse.Action) -> list[str]:
    return [str(each) for each in action.choices or ()]


def _names_on_cluster(kind: str | None, before: Sequence[str]) -> Iterable[str]:
    """Return names of groups or topics; none when the cluster is unavailable."""
    if kind is None:
        return ()
    import asyncio

    from coterie.errors import CoterieError

    try:
        return asyncio.run(_fetch_names(kind, before))
    except (CoterieError, OSError):
        return ()


async def _fetch_names(kind: str, before: Sequence[str]) -> list[str]:
    from coterie.cli import connect

    async with connect.open_admin(_connection_options(before)) as admin:
        if kind == _TOPICS:
            topics = await admin.describe_topics()
            return [
                each.name for each in topics.values.values() if not each.is_internal
            ]
        if kind == _TOPIC_CONFIGS:
            return await _topic_config_names(admin)
        listings = await admin.list_groups()
        return [each.group_id for each in listings.groups]


async def _topic_config_names(admin: AdminClient) -> list[str]:
    """Return the names of topic configurations, from those of any topic."""
    from coterie.client.admin.configs import ConfigResource
    from coterie.wire.configs import ConfigResourceType

    topics = await admin.describe_topics()
    for name in topics.values:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        configs = await admin.describe_configs([resource])
        return [each.name for each in configs.one(resource)]
    return []


def _connection_options(before: Sequence[str]) -> argparse.Namespace:
    """Parse the connection options of an unfinished line and ignore everything else."""
    from coterie.cli.connect import add_connection_options

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_connection_options(parser)
    # argparse prints some errors even with exit_on_error=False; a message here would
    # appear in the middle of the line being typed.
    with open(os.devnull, "w", encoding="utf-8") as devnull:  # noqa: PTH123
        stderr, sys.stderr = sys.stderr, devnull
        try:
            options, _ = parser.parse_known_args(list(before))
        except (argparse.ArgumentError, SystemExit):
            options = parser.parse_args([])
        finally:
            sys.stderr = stderr
    options.timeout = _TIMEOUT_MS
    return options
