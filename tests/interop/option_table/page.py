"""Write the table of differences on docs/kafka-consumer-groups.md.

`python -m tests.interop.option_table.page` makes it of docs/kafka-consumer-groups.tsv.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

_DOCS: Final = Path(__file__).parents[3] / "docs"
PAGE: Final = _DOCS / "kafka-consumer-groups.md"
ROWS: Final = _DOCS / "kafka-consumer-groups.tsv"
_START: Final = "<!-- differences: from kafka-consumer-groups.tsv -->\n\n"
_END: Final = "\n<!-- end of differences -->"


class Row(NamedTuple):
    """A declared difference; `id` names its rule in `differences.RULES`."""

    id: str
    what: str
    apache: str
    coterie: str
    reason: str


def read_rows() -> list[Row]:
    """Return the declared differences."""
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    return [Row(*line.split("\t")) for line in lines[1:]]


def with_table(page: str) -> str:
    """Return the text of the page with the table of the declared differences."""
    before, _, rest = page.partition(_START)
    after = rest.partition(_END)[2]
    table = [
        "| | Apache's tool | Coterie with `--strict` | reason |",
        "|---|---|---|---|",
    ]
    table += (
        f"| {row.what} | {row.apache} | {row.coterie} | {row.reason} |"
        for row in read_rows()
    )
    return before + _START + "\n".join(table) + "\n" + _END + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
