"""Measure the structure of src: sizes, import circles, modules with one importer.

    python -m tools.structure            # all of src/coterie
    python -m tools.structure client     # one package

Imports inside functions and under TYPE_CHECKING count as imports, because a reader
follows them, too. Only `circles` and `one_importer` need the whole tree; `tools.tidy`
refuses their findings.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

SRC: Final = Path(__file__).parent.parent / "src"
SMALL_LINES_MAX: Final = 60
"""A module of fewer lines with one importer belongs to its importer."""

Graph: TypeAlias = Mapping[str, frozenset[str]]


def modules(src: Path = SRC) -> dict[str, str]:
    """Return the text of every module below a source folder by its dotted name."""
    texts = {}
    for path in sorted(src.rglob("*.py")):
        name = module_name(path.relative_to(src).as_posix())
        texts[name] = path.read_text(encoding="utf-8")
    return texts


def module_name(path: str) -> str:
    """Return the dotted name of a module from its path below the source folder."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def import_graph(texts: Mapping[str, str]) -> Graph:
    """Return, for each module, the modules of the same tree that it imports."""
    return {
        name: frozenset(_imports(text, texts)) - {name} for name, text in texts.items()
    }


def _imports(text: str, known: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                below = f"{node.module}.{each.name}"
                if below in known:
                    yield below
                elif node.module in known:
                    yield node.module


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one module.

    Tarjan's algorithm, without recursion: import chains are deep.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(sorted(component))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in on_stack:
                low[name] = min(low[name], index[target])
    return found


def one_importer(texts: Mapping[str, str], graph: Graph) -> list[tuple[str, str, int]]:
    """Return the small modules that exactly one module imports.

    Each is a tuple of name, importer and length in lines.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    return [
        (name, min(users), lines)
        for name, users in sorted(importers.items())
        if len(users) == 1
        and 0 < (lines := len(texts[name].splitlines())) < SMALL_LINES_MAX
    ]


def duplicate_classes(texts: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
    """Return the class names that two modules of one package define."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, text in texts.items():
        package = name.rpartition(".")[0]
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                places[package, node.name].append(name)
    return [
        (package, class_name, names)
        for (package, class_name), names in sorted(places.items())
        if len(names) > 1
    ]


def main() -> int:
    """Print the figures of all of src, or of the package in the arguments."""
    texts = modules()
    graph = import_graph(texts)
    prefix = ".".join(["coterie", *sys.argv[1:]]).replace("/", ".").rstrip(".")
    inside = {
        name: text
        for name, text in texts.items()
        if name == prefix or name.startswith(f"{prefix}.")
    }
    lengths = [len(text.splitlines()) for text in inside.values()]
    full = [length for length in lengths if length]
    print(f"{len(lengths)} files, {sum(lengths)} lines", end=", ")
    print(f"median {statistics.median(full):g} without empty files")
    for name, importer, lines in one_importer(texts, graph):
        if name in inside:
            print(f"one importer: {name} ({lines} lines) <- {importer}")
    for circle in circles(graph):
        if any(name in inside for name in circle):
            print(f"circle: {' '.join(circle)}")
    for package, class_name, names in duplicate_classes(inside):
        print(f"two classes {class_name} in {package}: {' '.join(names)}")
    packages = Counter(name.split(".")[1] for name in inside if "." in name)
    print("files by package:", dict(packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
