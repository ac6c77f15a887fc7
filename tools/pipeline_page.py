"""Write the column tables of docs/pipeline.md: `python -m tools.pipeline_page`.

The list of tables and the text between `<!-- columns of NAME -->` and `<!-- end -->`
are generated from the declarations in coterie.pipeline.tables; a test fails when the
page differs from them.
The rest of the page is written by hand. Every table has one example, a block of SQL
that a test runs.
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
_INDEX: Final = re.compile(r"(<!-- tables -->\n).*?(?=<!-- end -->)", re.DOTALL)
_SECTION: Final = re.compile(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
_QUERY: Final = re.compile(r"```sql\n(.*?)```", re.DOTALL)


class PageError(Exception):
    """The error of a missing section, table or example on the page."""


def tables() -> list[Table]:
    """Return the documented tables: all but the internal ones."""
    return [table for layer in SHOWN for table in of_layer(layer)]


def with_columns(page: str) -> str:
    """Return the page with the column tables generated from the declarations.

    Raises PageError for a table without a section, a section without a table, and a
    table that does not have exactly one example.
    """
    declared = {table.name: table for table in tables()}
    sections = dict(_SECTION.findall(page))
    placed = [name for name, _ in _BLOCK.findall(page)]
    if wrong := set(declared) ^ set(placed) or set(declared) ^ set(sections):
        raise PageError(
            "docs/pipeline.md: sections differ from the declared tables:"
            f" {', '.join(sorted(wrong))}"
        )
    for name, text in sections.items():
        if len(_QUERY.findall(text)) != 1 or name not in _QUERY.findall(text)[0]:
            raise PageError(
                f"docs/pipeline.md: {name} needs exactly one example that reads it"
            )
    page = _INDEX.sub(lambda match: match[1] + index(declared.values()), page)
    return _BLOCK.sub(
        lambda match: match[1] + match[2] + block(declared[match[1]]), page
    )


def queries(page: str) -> dict[str, str]:
    """Return the SQL example of each table by table name."""
    return {
        name: _QUERY.findall(text)[0].strip() for name, text in _SECTION.findall(page)
    }


def index(listed: Iterable[Table]) -> str:
    """Return the generated list of tables, with links to their sections."""
    rows = "".join(
        f"| {each.layer.value} | [`{each.name}`](#{each.name}) | {each.question} |\n"
        for each in listed
    )
    return f"| layer | table | question |\n|---|---|---|\n{rows}"


def block(table: Table) -> str:
    """Return the generated text of a table: its question, key and columns."""
    key = ", ".join(f"`{name}`" for name in table.key)
    rows = "".join(_row(column) for column in table.all_columns)
    return (
        f"*{table.question}* One row for each {key}.\n\n"
        f"| column | type | meaning |\n|---|---|---|\n{rows}"
    )


def _row(column: Column) -> str:
    never = "" if column.nullable else ", never null"
    meaning = column.meaning.replace("|", "\\|")
    return f"| `{column.name}` | {kind(column.type)}{never} | {meaning} |\n"


def kind(type_: Any) -> str:
    """Return the name of an Arrow type in Spark SQL."""
    if pa.types.is_list(type_):
        return f"array of {kind(type_.value_type)}"
    if pa.types.is_struct(type_):
        fields = (f"{field.name} {kind(field.type)}" for field in type_)
        return f"struct of {', '.join(fields)}"
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
    """Update the page; return 1 when a section, table or example is missing."""
    try:
        text = with_columns(PAGE.read_text("utf-8"))
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
