"""Named mutants: for a row of docs/facts.tsv, the change of src that breaks it.

`mutation/facts/` has a file for each letter or section of the fact list. A table is one
mutant, named by the ids of the rows that it breaks:

    ["E7-31"]
    file = "broker/coordinator/consumer/members.py"   # below src/coterie
    within = "Members.check_epoch"    # optional: the class or function that has `old`
    old = "if epoch < member.epoch:"
    new = "if epoch <= member.epoch:"
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mutation.sandbox import ROOT, Edit

MUTANTS: Final = ROOT / "mutation" / "facts"
KEYS: Final = frozenset({"file", "old", "new"})
SOURCES: Final = "src/coterie/"


class InvalidMutant(Exception):
    """A mutant that cannot be applied; the message says what to change."""


class NamedMutant(NamedTuple):
    """A change of one file of src that breaks what rows of docs/facts.tsv state."""

    facts: tuple[str, ...]
    file: str
    old: str
    new: str
    within: str
    origin: str
    """The file of mutants that has it."""

    @property
    def path(self) -> str:
        """The path of the changed file, relative to the root."""
        return SOURCES + self.file

    def apply(self, text: str, tree: ast.Module | None = None) -> Edit:
        """Return the changed file.

        Raises:
            InvalidMutant: `old` does not occur exactly once.
        """
        start, end = 0, len(text)
        if self.within:
            start, end = _extent(text, tree or ast.parse(text), self.within, self)
        count = text.count(self.old, start, end)
        if count != 1:
            place = f"{self.within} of {self.path}" if self.within else self.path
            advice = f"adapt `old` and `new` to it, so that they break {self.ids} again"
            if count:
                advice = (
                    "add neighbouring lines to both, or name the function, `within`"
                )
            raise InvalidMutant(f"`old` occurs {count} times in {place}: {advice}")
        if self.old == self.new:
            raise InvalidMutant("`old` and `new` are the same: write what breaks it")
        at = text.index(self.old, start, end)
        return Edit(self.path, text[:at] + self.new + text[at + len(self.old) :])

    @property
    def ids(self) -> str:
        """The ids of the rows, in one text."""
        return ", ".join(self.facts)


def _extent(
    text: str, tree: ast.Module, name: str, mutant: NamedMutant
) -> tuple[int, int]:
    """Return the start and end of a class or function in the text of its file."""
    found = [node for path, node in definitions(tree) if path == name]
    if len(found) != 1:
        raise InvalidMutant(
            f"{mutant.path} has {len(found)} classes or functions {name}: write "
            " `within` as NAME or CLASS.METHOD, or leave it out"
        )
    (node,) = found
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    start = sum(map(len, lines[: first - 1]))
    return start, start + sum(map(len, lines[first - 1 : node.end_lineno]))


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield each class and function with its name as CLASS.METHOD."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield prefix + child.name, child
            yield from definitions(child, f"{prefix}{child.name}.")
        else:
            yield from definitions(child, prefix)


def read_mutants(texts: Mapping[str, str]) -> list[NamedMutant]:
    """Parse files of mutants, by name.

    Raises:
        InvalidMutant: A file is not TOML, or a table has wrong keys.
    """
    return [each for name in sorted(texts) for each in _read(name, texts[name])]


def _read(name: str, text: str) -> Iterator[NamedMutant]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidMutant(f"{name} is not valid TOML: {error}") from error
    for ids, table in tables.items():
        facts = tuple(each.strip() for each in ids.split(","))
        keys = set(table) if isinstance(table, dict) else set()
        strings = keys and all(isinstance(each, str) for each in table.values())
        if not strings or keys - {"within"} != KEYS:
            raise InvalidMutant(
                f"{name}: [{ids}] needs the strings file, old, new, and may have within"
            )
        within = table.get("within", "")
        yield NamedMutant(
            facts, table["file"], table["old"], table["new"], within, name
        )


def texts_of_mutants(folder: Path = MUTANTS) -> dict[str, str]:
    """Read the files of mutants, by their name."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.toml"))
    }


def problems(
    mutants: Iterable[NamedMutant], texts: Mapping[str, str]
) -> Iterator[tuple[NamedMutant, str]]:
    """Yield each mutant that cannot be applied, and a sentence that says why.

    `texts` has the text of each file of the repository by its path.
    """
    rows = texts.get("docs/facts.tsv", "").splitlines()[1:]
    known = {row.partition("\t")[0] for row in rows}
    named: dict[str, NamedMutant] = {}
    trees: dict[str, ast.Module] = {}
    for mutant in mutants:
        for fact in mutant.facts:
            if fact not in known:
                yield mutant, f"docs/facts.tsv has no row {fact}: remove its mutant"
            if fact in named:
                yield (
                    mutant,
                    f"{named[fact].origin} has a mutant of {fact}, too: remove one",
                )
            named[fact] = mutant
        if mutant.path not in texts:
            yield mutant, f"{mutant.path} does not exist: name the file in src/coterie"
            continue
        text = texts[mutant.path]
        if mutant.within and mutant.path not in trees:
            trees[mutant.path] = ast.parse(text)
        try:
            mutant.apply(text, trees.get(mutant.path))
        except InvalidMutant as error:
            yield mutant, str(error)
