"""Manual pages have every command and option, and print text as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cli.parser import help_document
from coterie.cli.registry import COMMANDS
from tools.man_pages import escape, pages, write_share


@pytest.mark.slow
def test_every_command_has_a_page_with_all_its_options() -> None:
    made = pages()
    words = {each.words[0] for each in COMMANDS}
    assert set(made) == {"coterie", *(f"coterie-{word}" for word in words)}
    for command in help_document()["commands"]:
        page = made[f"coterie-{command['name'].split()[0]}"]
        assert f"coterie {escape(command['name'])}" in page
        for option in command["arguments"] or ():
            for name in option["names"]:
                assert f"\\fB{escape(name)}\\fR" in page


@pytest.mark.slow
def test_pages_are_the_same_for_the_same_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    texts = [
        {path.name: path.read_text("utf-8") for path in write_share(tmp_path / name)}
        for name in ("first", "second")
    ]
    assert texts[0] == texts[1]
    assert "2023-11-14" in texts[0]["coterie.1"].splitlines()[0]


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        ("--empty", "\\-\\-empty"),
        (".hidden", "\\&.hidden"),
        ("'quoted'", "\\&'quoted'"),
        ("a \\", "a \\e"),
        ("Z|±hh", "Z|\\[u00B1]hh"),
    ],
)
def test_text_that_roff_would_interpret_is_escaped(text: str, roff: str) -> None:
    assert escape(text) == roff
