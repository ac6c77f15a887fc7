"""Write the manual pages and completion files that a wheel installs into share/.

    python -m tools.man_pages DIR

setup.py calls `write_share` when it builds a wheel. The pages are made of the document
of `coterie --help-json`, so they are as current as `--help`: coterie(1), and a page for
each word that may follow `coterie`. The date is SOURCE_DATE_EPOCH, or today.

Rules of this file: it runs in the isolated environment of a build, so it imports the
standard library and `coterie.cli` alone.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from coterie.cli.parser import help_document
from coterie.cli.registry import FAMILIES, find_command

Item: TypeAlias = Mapping[str, Any]
"""A command or an argument of `coterie --help-json`."""

ROOT: Final = Path(__file__).parent.parent
COMPLETIONS: Final = {
    "bash-completion/completions/coterie": "source <(coterie completion bash)\n",
    "zsh/site-functions/_coterie": """\
#compdef coterie
source <(coterie completion zsh)
_python_argcomplete "$@"
""",
    "fish/vendor_completions.d/coterie.fish": "coterie completion fish | source\n",
}
"""The files below share/ in which shells look for the completions of a command."""
ABOUT: Final = """\
Kafka's group coordinator in Python: a server for unmodified Kafka clients, a command
line for the consumer groups of any Kafka cluster, and a pipeline that converts the
coordinator's log into tables.

Each command has options of its own: see its page, or add --help.
"""
EXIT_CODES: Final = """\
0 success, 1 failure of the run or of an item, 2 usage error, 3 a --fail-if condition is
true, 130 interrupted
"""


def write_share(directory: Path) -> list[Path]:
    """Write the files below `directory` as below share/; return their paths."""
    texts = {f"man/man1/{name}.1": text for name, text in pages().items()}
    texts |= COMPLETIONS
    paths = []
    for name, text in sorted(texts.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        paths.append(path)
    return paths


def pages() -> dict[str, str]:
    """Return the source of every page by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    footer = f'{now:%Y-%m-%d} "coterie {project["version"]}" "Coterie manual"'
    commands = help_document()["commands"]
    families: dict[str, list[Item]] = {}
    for each in commands:
        families.setdefault(each["name"].split()[0], []).append(each)
    summaries = {
        word: FAMILIES.get(word) or members[0]["summary"]
        for word, members in families.items()
    }
    made = {"coterie": overview(project["description"], summaries, commands)}
    for word, members in families.items():
        page = command_page if word == members[0]["name"] else family_page
        made[f"coterie-{word}"] = page(members, summaries[word])
    return {
        name: "\n".join([f".TH {escape(name.upper())} 1 {footer}", *lines, ""])
        for name, lines in made.items()
    }


def overview(
    description: str, summaries: Mapping[str, str], commands: Sequence[Item]
) -> list[str]:
    """Return the lines of coterie(1) below its title."""
    lines = [*name("coterie", description)]
    lines += [".SH SYNOPSIS", ".B coterie", ".I COMMAND", "[OPTIONS] [ARGUMENTS]"]
    lines += [".SH DESCRIPTION", *prose(ABOUT), ".SH COMMANDS"]
    for each in commands:
        lines += tagged(f"\\fBcoterie {escape(each['name'])}\\fR", each["summary"])
    lines += [".SH OPTIONS"]
    lines += tagged("\\fB\\-\\-version\\fR", "show the version and exit")
    lines += tagged(
        "\\fB\\-\\-help\\-json\\fR",
        "show every command and its options as JSON, and exit",
    )
    lines += [".SH EXIT STATUS", *prose(EXIT_CODES), ".SH SEE ALSO"]
    *others, last = (f".BR coterie\\-{escape(each)} (1)" for each in summaries)
    return [*lines, *(f"{each}," for each in others), last]


def command_page(members: Sequence[Item], summary: str) -> list[str]:
    """Return the lines of the page of one command."""
    (command,) = members
    lines = [*name(f"coterie-{command['name']}", summary), ".SH SYNOPSIS"]
    lines += [*synopsis(command), ".SH DESCRIPTION", *described(command)]
    if command["arguments"]:
        lines += [".SH OPTIONS"]
        for each in command["arguments"]:
            lines += argument(each)
    if command.get("examples"):
        lines += [".SH EXAMPLES AND EXIT STATUS", *verbatim(command["examples"])]
    return [*lines, *SEE_ALSO]


def family_page(members: Sequence[Item], summary: str) -> list[str]:
    """Return the lines of the page of commands with the same first word; the options
    that all of them have are described once.
    """
    word = members[0]["name"].split()[0]
    common = [
        each
        for each in members[0]["arguments"]
        if each["names"] and all(each in other["arguments"] for other in members)
    ]
    if len(members) == 1:
        common = []
    lines = [*name(f"coterie-{word}", summary), ".SH SYNOPSIS"]
    for each in members:
        lines += [*synopsis(each), ".br"]
    lines = [*lines[:-1], ".SH COMMANDS"]
    for each in members:
        lines += [f'.SS "coterie {escape(each["name"])}"', *described(each)]
        for option in each["arguments"]:
            lines += [] if option in common else argument(option)
        lines += [".PP", *verbatim(each["examples"] or "")]
    if common:
        lines += [".SH OPTIONS OF EACH COMMAND"]
        for option in common:
            lines += argument(option)
    return [*lines, *SEE_ALSO]


SEE_ALSO: Final = (".SH SEE ALSO", ".BR coterie (1)")


def name(page: str, summary: str) -> list[str]:
    """Return the NAME section, which apropos(1) reads."""
    return [".SH NAME", f"{escape(page)} \\- {escape(summary)}"]


def synopsis(command: Item) -> list[str]:
    """Return a usage line with the names of the positional arguments."""
    arguments = command["arguments"]
    values = ["ARGUMENTS"]
    if arguments is not None:
        values = [
            each["value"] + (" ..." if each["repeatable"] else "")
            for each in arguments
            if not each["names"]
        ]
    shown = " ".join(["[OPTIONS]", *values])
    return [f".B coterie {escape(command['name'])}", escape(shown)]


def described(command: Item) -> list[str]:
    """Return the description; for a command that parses its own options, its help."""
    if command["arguments"] is not None:
        return list(prose(command["description"]))
    entry = find_command(command["name"].split())
    assert entry is not None, "the document has commands of the registry only"
    output = io.StringIO()
    with redirect_stdout(output):
        entry.load()(["--help"])
    return verbatim(output.getvalue())


def argument(item: Item) -> list[str]:
    """Return the lines of an option or a positional argument."""
    value = f"\\fI{escape(item['value'])}\\fR" if item["value"] else ""
    names = [f"\\fB{escape(each)}\\fR" for each in item["names"]]
    text = (item["help"] or "").replace("%(default)s", str(item["default"]))
    if item["choices"]:
        text = f"{text}; one of {', '.join(item['choices'])}"
    return tagged(f"{', '.join(names)} {value}".strip(), text.replace("%%", "%"))


def tagged(tag: str, text: str) -> list[str]:
    """Return a paragraph with a tag; the tag is roff already."""
    return [".TP", tag, *map(escape, text.splitlines())]


def verbatim(text: str) -> list[str]:
    """Return lines with their breaks and indentation."""
    return [".nf", *map(escape, text.strip("\n").splitlines()), ".fi"] if text else []


def prose(text: str) -> Iterator[str]:
    """Yield paragraphs; those with indented lines keep their line breaks."""
    for number, paragraph in enumerate(text.strip("\n").split("\n\n")):
        if number:
            yield ".PP"
        lines = paragraph.splitlines()
        if any(line.startswith(" ") for line in lines):
            yield from verbatim(paragraph)
        else:
            yield from map(escape, lines)


def escape(text: str) -> str:
    """Return text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    for written in write_share(Path(sys.argv[1])):
        sys.stdout.write(f"{written}\n")
