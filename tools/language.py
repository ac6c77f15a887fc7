"""Check the language of the project: banned words, first words, citations.

Names, docstrings, comments, help texts, tests and pages use the terms of Kafka and of
Python's own documentation. `BANNED` maps each rejected word to its replacement; the
list grows when a reviewer finds another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tools.sources import Finding, Function, Source

BANNED: Final[Mapping[str, str]] = {
    "somebody": "the principal, the client, the member",
    "whoever": "the member that, the caller that",
    "anew": "again",
    "shall": "must, or the target assignment",
    "let go": "revoke a partition, send a response, release a resource",
    "lets go": "revokes, sends, releases",
    "who may": "authorization, ACL binding",
    "who calls": "principal",
    "to be had": "available",
    "asked for wrongly": "usage error",
}
EXEMPT: Final = frozenset(
    {"tools/language.py", "tests/tools/test_language.py", "docs/facts.tsv", "LICENSE"}
)
"""Files that list the words, the facts, which quote the KIPs, and the licence."""

FIRST_WORDS: Final = frozenset(
    {"a", "all", "an", "each", "every", "how", "the", "what", "when", "where"}
    | {"whether", "which", "who", "whose", "why"}
)
"""A function's docstring starts with a verb, so with none of these (PEP 257)."""

NOUN_DECORATORS: Final = frozenset(
    {"property", "cached_property", "fixture", "setter", "overload"}
)
"""Decorators of functions that are read as data: their docstring is a noun phrase."""

PRIVATE_CITATIONS: Final = re.compile(
    r"(?:spark|perf|peer-tools|peer-servers|style|design|language)\.md"
    r"|(?<!by )\bdesign:|\bhabit \d|\bpeer-tools\b|\bpeer-servers\b"
)
CITED_PAGE: Final = re.compile(r"[\w./-]*\w\.md\b")
CITED_FACT: Final = re.compile(
    r"(?<![\w-])((?:SG|[A-K]\d{0,2})-\d{2,3}[a-z]?)(?![\w-])"
)
OTHER_FACTS: Final = ("tests/tools/", "tests/mutation/")
CITED_DECISION: Final = re.compile(r"\bdecisions? (\d{4})\b")


def banned_words(source: Source) -> Iterator[Finding]:
    """Refuse words with a standard replacement, in text and in names."""
    if source.path in EXEMPT:
        return
    for number, line in enumerate(source.lines, start=1):
        for match in _BANNED_PATTERN.finditer(line):
            word = match[0].replace("_", " ").lower()
            advice = f"{match[0]!r}: say {BANNED[word]}"
            yield source.finding(number, "banned word", advice)


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    alternatives = "|".join(word.replace(" ", "[ _]") for word in words)
    return re.compile(rf"(?<![A-Za-z])(?:{alternatives})(?![A-Za-z])", re.IGNORECASE)


_BANNED_PATTERN: Final = _pattern(BANNED)


def imperative_docstrings(source: Source) -> Iterator[Finding]:
    """Refuse function docstrings that start with an article, a question word, or a
    character that is not a letter.

    Ruff's D401 refuses wrong forms of verbs ("Returns"); it accepts nouns.
    """
    for function in source.functions:
        text = ast.get_docstring(function)
        if not text or _reads_as_data(function):
            continue
        first = text.split()[0]
        if first.lower() in FIRST_WORDS or not first[0].isalpha():
            advice = f"{function.name} starts with {first!r}: start with a verb"
            yield source.finding(function.lineno, "docstring", advice)


def _reads_as_data(function: Function) -> bool:
    for node in function.decorator_list:
        target = node.func if isinstance(node, ast.Call) else node
        name = target.attr if isinstance(target, ast.Attribute) else None
        if isinstance(target, ast.Name):
            name = target.id
        if name in NOUN_DECORATORS:
            return True
    return False


def citations_resolve(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse citations of pages, facts and decisions that are not in this
    repository.
    """
    sources = list(sources)
    paths = {source.path for source in sources}
    tables = [source for source in sources if source.path == "docs/facts.tsv"]
    facts = {line.partition("\t")[0] for table in tables for line in table.lines}
    # A citation of E7-31 stands for the rows E7-31a, E7-31b and so on.
    facts |= {fact[:-1] for fact in facts if fact[-1:].islower()}
    names = {path.rpartition("/")[2] for path in paths}
    decisions = {
        name[:4] for name in names if re.match(r"\d{4}-", name) and name.endswith("md")
    }
    for source in sources:
        if source.path in EXEMPT or not source.path.endswith((".py", ".md", ".toml")):
            continue
        for number, line in enumerate(source.lines, start=1):
            wrong = [match[0] for match in PRIVATE_CITATIONS.finditer(line)]
            if source.path.endswith(".py"):
                wrong += [
                    page
                    for page in CITED_PAGE.findall(line)
                    if page not in paths
                    and page.rpartition("/")[2] not in names
                    and not source.path.startswith("tests/")
                ]
            # Pages are written after the rows, and these tests have rows of their own.
            if facts and not source.path.startswith(OTHER_FACTS):
                wrong += [id_ for id_ in CITED_FACT.findall(line) if id_ not in facts]
            wrong += [
                id_ for id_ in CITED_DECISION.findall(line) if id_ not in decisions
            ]
            for citation in wrong:
                advice = f"{citation!r} leads nowhere: name a KIP, a class of Apache "
                advice += "Kafka, a file of this repository or a fact row"
                yield source.finding(number, "citation", advice)
