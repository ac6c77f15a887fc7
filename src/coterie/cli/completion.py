"""Print what a shell needs to complete this command: its verbs, options and values, and
the names of groups and topics as they are on the cluster at that moment.

The cluster is the one that the line being typed names, or the environment, or a
profile; when it does not answer at once, nothing is offered and nothing is said.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

EXAMPLES: Final = """\
examples:
  source <(coterie completion bash)
      in ~/.bashrc
  source <(coterie completion zsh)
      in ~/.zshrc, after compinit
  coterie completion fish | source
      in ~/.config/fish/config.fish
"""

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
compdef _coterie coterie
"""

_FISH: Final = r"""
function __coterie_complete
    set -l words (commandline -opc) (commandline -ct)
    coterie complete -- $words[2..-1] 2>/dev/null
end
complete -c coterie -a '(__coterie_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="which shell it is for")


def run(options: argparse.Namespace) -> int:
    """Print it."""
    sys.stdout.write(_SCRIPTS[options.shell].lstrip())
    return 0
