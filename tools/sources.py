"""The text files of the project, read for the checks of `tools`.

Rules of this file: it reads text and syntax trees and imports nothing that it checks.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parent.parent

FOLDERS: Final = (
    *("src/coterie", "tests", "tools", "examples", "benchmarks", "fuzz", "sim"),
    *("mutation", "docs", ".ci"),
)
TEXT: Final = frozenset(
    {".py", ".sql", ".md", ".toml", ".tsv", ".txt", ".sh", ".c", ""}
)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """A violation of a rule: its place, the rule and the correction."""

    path: str
    line: int
    rule: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.advice}"


@dataclass(frozen=True)
class Source:
    """One file of the tree; `path` is relative to the root, with slashes."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The file's lines."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; empty for a file that is not Python."""
        return ast.parse(self.text if self.path.endswith(".py") else "")

    @cached_property
    def functions(self) -> list[Function]:
        """The functions and methods, nested ones included."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def package(self) -> str:
        """The package of src/coterie that holds the file; "" outside src.

        A package of the broker is returned by its own name: "coordinator", not
        "broker".
        """
        if not self.path.startswith("src/coterie/"):
            return ""
        below = self.path.split("/")[2:]
        return below[1] if below[0] == "broker" and len(below) > 2 else below[0]

    def finding(self, line: int, rule: str, advice: str) -> Finding:
        """Return a finding in this file."""
        return Finding(self.path, line, rule, advice)


def read_sources(root: Path = ROOT) -> list[Source]:
    """Read every hand-written text file, in the order of their paths."""
    top = [path for path in root.iterdir() if not path.name.startswith(".")]
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted({*top, *below})
        if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts
    ]
