"""The columns in docs/pipeline.md: `python -m tools.pipeline_page` writes them anew
from the declarations in coterie.pipeline.tables; a test fails when the page has others.

What stands between `<!-- columns of NAME -->` and `<!-- end -->` is ours, the rest is
written by hand: for each table one example, a block of SQL that a test runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from coterie.pipeline.tables.all_tables import of_layer
from coterie.pipeline.tables.table import Column, Layer, Table

PAGE: Final = Path(__file__).parent.parent / "docs" / "pipeline.md"
SHOWN: Final = (Layer.BRONZE, Layer.SILVER, Layer.GOLD)
_BLOCK: Final = re.compile(
    r"(?<=<!-- columns of )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL
)
_SECTION: Final = re.compile(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
_QUERY: Final = re.compile(r"```sql\n(.*?)```", re.DOTALL)


class PageError(Exception):
    """The page lacks something; the message says what."""


def tables() -> list[Table]:
    """The tables that people read."""
    return [each for layer in SHOWN for each in of_layer(layer)]


def written(page: str) -> str:
    """The page with its columns as they are declared. Raises PageError for a table
    without a place, a place without a table, and a table without one example."""
    known = {each.name: each for each in tables()}
    sections = dict(_SECTION.findall(page))
    placed = [name for name, _ in _BLOCK.findall(page)]
    if wrong := set(known) ^ set(placed) or set(known) ^ set(sections):
        raise PageError(
            f"docs/pipeline.md: {', '.join(sorted(wrong))}: no such section"
        )
    for name, text in sections.items():
        if len(_QUERY.findall(text)) != 1 or name not in _QUERY.findall(text)[0]:
            raise PageError(f"docs/pipeline.md: {name} needs one example that reads it")
    return _BLOCK.sub(lambda match: match[1] + match[2] + block(known[match[1]]), page)


def queries(page: str) -> dict[str, str]:
    """The example of each table."""
    return {
        name: _QUERY.findall(text)[0].strip() for name, text in _SECTION.findall(page)
    }


def block(table: Table) -> str:
    """A table's question, key and columns."""
    key = ", ".join(f"`{each}`" for each in table.key)
    rows = "".join(_row(each) for each in table.columns)
    return (
        f"*{table.question}* One row for each {key}.\n\n"
        f"| column | type | meaning |\n|---|---|---|\n{rows}"
    )


def _row(column: Column) -> str:
    never = "" if column.nullable else ", never null"
    meaning = column.meaning.replace("|", "\\|")
    return f"| `{column.name}` | {kind(column.type)}{never} | {meaning} |\n"


def kind(type_: Any) -> str:
    """The type as Spark's SQL says it."""
    if pa.types.is_list(type_):
        return f"array of {kind(type_.value_type)}"
    if pa.types.is_struct(type_):
        return (
            f"struct of {', '.join(f'{each.name} {kind(each.type)}' for each in type_)}"
        )
    if pa.types.is_map(type_):
        return f"map of {kind(type_.key_type)} to {kind(type_.item_type)}"
    return _NAMES[str(type_)]


_NAMES: Final = {
    "string": "string",
    "binary": "binary",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "timestamp[us, tz=UTC]": "timestamp",
    "date32[day]": "date",
}


def main(_: Iterable[str] = ()) -> int:
    """Write the page; 0, or 1 when it lacks something."""
    try:
        text = written(PAGE.read_text("utf-8"))
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
