"""Faults of gold tables: other texts in their queries."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from coterie.pipeline.tables.all_tables import GOLD, VIEWS


class Mutant(NamedTuple):
    """A query, a text in it and a wrong one in its place."""

    query: str
    right: str
    wrong: str
    in_table: str | None = None
    """The table that is wrong, unless it is the query itself."""

    def __str__(self) -> str:
        return self.query

    @property
    def table(self) -> str:
        return self.in_table or self.query

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the text in the query."""
        queries = VIEWS if self.query in VIEWS else GOLD
        query = queries[self.query]
        assert self.right in query.sql, f"{self.query} has another text"
        wrong = query.sql.replace(self.right, self.wrong)
        patch.setitem(queries, self.query, replace(query, sql=wrong))
