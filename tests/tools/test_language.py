"""The language rules report banned words, wrong first words and broken citations."""

from __future__ import annotations

import pytest

from tools.language import (
    banned_words,
    citations_resolve,
    imperative_docstrings,
)
from tools.sources import Source

FACTS = Source("docs/facts.tsv", "id\tsection\nA-20\tA.2\nA-22a\tA.2\n")
DECISION = Source("docs/decisions/0003-replay-before-flush.md", "# 3")


@pytest.mark.parametrize(
    "text",
    ["# Whoever joins", "def let_go(): ...", "SHALL = 1", '"""Built anew."""'],
)
def test_a_banned_word_is_reported_in_text_and_in_names(text: str) -> None:
    assert len(list(banned_words(Source("src/coterie/a.py", text)))) == 1


@pytest.mark.parametrize("text", ["a shallow copy", "outlet gone", "manual review"])
def test_a_word_that_contains_a_banned_one_is_accepted(text: str) -> None:
    assert list(banned_words(Source("src/coterie/a.py", text))) == []


@pytest.mark.parametrize("text", ["The offset.", "Whether it is so.", "What it is."])
def test_a_docstring_that_starts_with_a_noun_is_reported(text: str) -> None:
    source = Source("src/coterie/a.py", f'def f():\n    """{text}"""\n')
    assert [each.line for each in imperative_docstrings(source)] == [1]


@pytest.mark.parametrize("text", ["`offset`: the next one.", "'a' or 'b'.", "(x, y)."])
def test_a_docstring_that_does_not_start_with_a_letter_is_reported(text: str) -> None:
    source = Source("src/coterie/a.py", f'def f():\n    """{text}"""\n')
    assert [each.line for each in imperative_docstrings(source)] == [1]


def test_a_docstring_that_starts_with_a_verb_is_accepted() -> None:
    source = Source("src/coterie/a.py", 'def f():\n    """Return the offset."""\n')
    assert list(imperative_docstrings(source)) == []


@pytest.mark.parametrize("decorator", ["property", "pytest.fixture(scope='module')"])
def test_the_docstring_of_a_property_or_fixture_may_be_a_noun(decorator: str) -> None:
    text = f'@{decorator}\ndef f():\n    """The offset."""\n'
    assert list(imperative_docstrings(Source("tests/a.py", text))) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/coterie/a.py", "# as fact A-21 says"),
        ("src/coterie/a.py", "# as fact A-22b says"),
        ("src/coterie/a.py", "# see decision 0004"),
        ("src/coterie/a.py", "# see docs/missing.md"),
        ("README.md", "as in design: clients"),
        ("README.md", "perf" + ".md, section 2"),
    ],
)
def test_a_citation_that_does_not_resolve_is_reported(path: str, text: str) -> None:
    findings = list(citations_resolve([FACTS, DECISION, Source(path, text)]))
    assert {(each.path, each.rule) for each in findings} == {(path, "citation")}


@pytest.mark.parametrize(
    "text",
    [
        "# fact A-20",
        "# fact A-22",
        "# fact A-22a",
        "# decision 0003",
        "# KIP-848",
        "# SHA-256, UTF-16",
    ],
)
def test_a_citation_that_resolves_is_accepted(text: str) -> None:
    source = Source("src/coterie/a.py", text)
    assert list(citations_resolve([FACTS, DECISION, source])) == []
