"""Write docs/differences-from-kafka.md from the list of known differences.

python -m tests.differential.page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.differential.known import KNOWN, Known

PAGE: Final = Path(__file__).parents[2] / "docs" / "differences-from-kafka.md"
_HEAD: Final = """# Differences from Apache Kafka

Written by `python -m tests.differential.page`; do not edit. Coterie behaves as Apache
Kafka 4.4.0 except for these rows. `make differential` sends random requests to both and
compares every field of the answers; a difference that is not listed here fails it. CI
allows four in 3,000 requests, as about one in 5,000 to 10,000 has no explanation yet.
Rows with a star are found there again and again; the others come from Kafka's source or
from single trials.

Not compared are error messages (`tests/interop/exchanges` has those that tools print),
the order of lists whose order means nothing, ids, ports and throttle times.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_table(KNOWN), ""])


def _table(rows: tuple[Known, ...]) -> Iterator[str]:
    yield "| situation | Kafka | Coterie | reason |"
    yield "|---|---|---|---|"
    for row in rows:
        star = " *" if row.matches else ""
        cells = (row.situation + star, row.kafka, row.coterie, row.reason)
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
