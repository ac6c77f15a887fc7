"""Write the table of docs/kafka-versions.md from docs/kafka-versions.tsv.

    python -m tools.kafka_versions

`make interop-versions ARGS=--record` writes the file, from a run of every command
against several releases of Apache Kafka, and then the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "docs" / "kafka-versions.tsv"
PAGE: Final = ROOT / "docs" / "kafka-versions.md"
WORKS: Final = "works"
_START: Final = "<!-- table: written by tools/kafka_versions.py -->\n"
_END: Final = "<!-- end of table -->\n"

Outcomes = Mapping[str, Mapping[str, str]]
"""The outcome of each command, by release."""


def read_table(text: str) -> dict[str, dict[str, str]]:
    """Parse the file: a row for each command, a column for each release."""
    header, *lines = text.splitlines()
    releases = header.split("\t")[1:]
    outcomes: dict[str, dict[str, str]] = {name: {} for name in releases}
    for line in lines:
        command, *cells = line.split("\t")
        for release, cell in zip(releases, cells, strict=True):
            outcomes[release][command] = cell
    return outcomes


def write_table(outcomes: Outcomes) -> str:
    """Return the file of the outcomes."""
    releases = sorted(outcomes, key=lambda name: [int(x) for x in name.split(".")])
    commands = list(outcomes[releases[-1]])
    rows = [
        [command, *(outcomes[each].get(command, "not run") for each in releases)]
        for command in commands
    ]
    return "".join("\t".join(row) + "\n" for row in [["command", *releases], *rows])


def markdown(outcomes: Outcomes) -> str:
    """Return the table of the page, with a numbered note for each refusal."""
    releases = list(outcomes)
    notes: dict[str, int] = {}

    def cell(outcome: str) -> str:
        if outcome == WORKS:
            return "yes"
        return f"no ({notes.setdefault(outcome, len(notes) + 1)})"

    lines = [
        "| command | " + " | ".join(releases) + " |",
        "|---|" + "---|" * len(releases),
        *(
            f"| `{command.partition(',')[0]}`{''.join(command.partition(',')[1:])} | "
            + " | ".join(cell(outcomes[each][command]) for each in releases)
            + " |"
            for command in outcomes[releases[0]]
        ),
        "",
        *(f"{number}. `{note}`" for note, number in notes.items()),
    ]
    return "\n".join(lines) + "\n"


def page_with(text: str, table: str) -> str:
    """Return a page with its table replaced."""
    head, _, rest = text.partition(_START)
    _, _, tail = rest.partition(_END)
    return f"{head}{_START}\n{table}\n{_END}{tail}"


def write_page() -> None:
    """Write the table into the page."""
    outcomes = read_table(TABLE.read_text("utf-8"))
    text = page_with(PAGE.read_text("utf-8"), markdown(outcomes))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page()
