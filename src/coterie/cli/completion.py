"""Shell completion: the scripts of `coterie completion`, and their candidates.

    coterie complete -- groups describe or

prints the candidates for the last word, which may be empty, one per line. Options and
their values come from the command's own parser, so they are never out of date;
`completion_values` has the values that a parser does not know.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from coterie.cli.command import Command
from coterie.cli.registry import COMMANDS, Entry, find_command

_BASH: Final = r"""
_coterie() {
    local line word last=-1 prefix="" words=()
    # Bash splits words at colons, as in localhost:9092; join them again.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if (( last >= 0 )) && [[ $word == :* || ${words[last]} == *: ]]; then
            words[last]+=$word
        else
            words[++last]=$word
        fi
    done
    # It replaces only what follows the last colon.
    if [[ $COMP_WORDBREAKS == *:* && ${words[last]} == *:* ]]; then
        prefix=${words[last]%"${words[last]##*:}"}
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "${line#"$prefix"}")")
    done < <(coterie complete -- "${words[@]}" 2>/dev/null)
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
profiles, snapshots, and the names of groups and topics on the cluster.

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
    # Bash splits words at "=".
    *before, typed = [*(each for each in words[:-1] if each != "="), words[-1]]
    typed = "" if typed == "=" else typed
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
    words: Sequence[str] = before
    last = words[-1] if words else ""
    option, equals, _ = typed.partition("=")
    if equals and typed.startswith("--"):
        values = _arguments(entry, [*words, option], "")
        return [f"{option}={each}" for each in values]
    if entry.parses_itself:
        return _values(last, entry, words) or _kafka_options(last)
    from coterie.cli.parser import arguments_of

    actions, words = _nested(arguments_of(entry)[1], words)
    for each in actions:
        if last in each.option_strings and each.nargs != 0:
            return _choices(each) or _values(last, entry, words)
    if typed.startswith("-"):
        return [name for each in actions for name in each.option_strings]
    positional = _positional(actions, words)
    if positional is None:
        return ()
    return _choices(positional) or _values(str(positional.metavar), entry, words)


def _values(argument: str, entry: Entry, before: Sequence[str]) -> list[str]:
    from coterie.cli.completion_values import values_for

    return values_for(argument, [*entry.words, *before])


def _kafka_options(last: str) -> Iterable[str]:
    """Return the options of kafka-consumer-groups, unless one waits for its value."""
    from coterie.cli.kafka_consumer_groups.options import BY_NAME, OPTIONS, Takes

    option = BY_NAME.get(last.removeprefix("--"))
    if option is not None and option.takes is Takes.ARGUMENT:
        return ()
    return [f"--{each.name}" for each in OPTIONS]


def _nested(
    actions: Sequence[argparse.Action], words: Sequence[str]
) -> tuple[Sequence[argparse.Action], Sequence[str]]:
    """Return the arguments of the subcommand on the line and the words behind it; all
    of them when there is none."""
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for at, word in enumerate(words):
                if word in action.choices:
                    return action.choices[word]._actions, words[at + 1 :]  # noqa: SLF001
    return actions, words


def _positional(
    actions: Sequence[argparse.Action], words: Sequence[str]
) -> argparse.Action | None:
    """Return the positional argument that the next word is."""
    with_value = {
        name for each in actions if each.nargs != 0 for name in each.option_strings
    }
    given = sum(
        1
        for at, word in enumerate(words)
        if not word.startswith("-") and (at == 0 or words[at - 1] not in with_value)
    )
    for each in actions:
        if not each.option_strings:
            if not given or each.nargs in {"*", "+"}:
                return each
            given -= 1
    return None


def _choices(action: argparse.Action) -> list[str]:
    return [str(each) for each in action.choices or ()]
