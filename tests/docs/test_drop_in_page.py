"""The declared differences of the drop-in: the page, the data file and the rules agree.

`make interop` checks that the rules are all that differs (test_option_table.py).
"""

from __future__ import annotations

from tests.interop.option_table.differences import RULES
from tests.interop.option_table.page import PAGE, read_rows, with_table


def test_the_page_has_the_table_of_the_data_file() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run python -m tests.interop.option_table.page"


def test_each_declared_difference_has_a_rule_and_a_reason() -> None:
    rows = read_rows()
    assert {each.id for each in rows} == set(RULES)
    assert all(cell for row in rows for cell in row)
