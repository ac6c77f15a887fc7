"""The import graph is built from syntax trees, and import circles are found."""

from __future__ import annotations

from tools.structure import (
    circles,
    duplicate_classes,
    import_graph,
    module_name,
    one_importer,
)


def test_imports_of_modules_and_of_their_names_are_edges() -> None:
    texts = {
        "p": "",
        "p.a": "import p.b",
        "p.b": "from p import c",
        "p.c": "def f():\n    from p.a import name\n",
        "p.d": "import os",
    }
    graph = import_graph(texts)
    assert graph["p.a"] == {"p.b"}
    assert graph["p.b"] == {"p.c"}
    assert graph["p.c"] == {"p.a"}
    assert graph["p.d"] == frozenset()
    assert circles(graph) == [["p.a", "p.b", "p.c"]]


def test_separate_import_circles_are_listed_separately() -> None:
    edges = {"a": "b", "b": "a", "c": "d", "d": "c", "e": "a"}
    graph = {name: frozenset({target}) for name, target in edges.items()}
    assert sorted(circles(graph)) == [["a", "b"], ["c", "d"]]


def test_a_small_module_with_one_importer_is_listed() -> None:
    texts = {
        "coterie.small": "a = 1",
        "coterie.large": "a = 1\n" * 60,
        "coterie.user": "from coterie.small import a as b\n"
        "from coterie.large import a as c\n",
    }
    small = one_importer(texts, import_graph(texts))
    assert small == [("coterie.small", "coterie.user", 1)]


def test_classes_of_one_name_count_within_a_package() -> None:
    texts = {"p.a": "class A: ...", "p.b": "class A: ...", "q.c": "class A: ..."}
    assert duplicate_classes(texts) == [("p", "A", ["p.a", "p.b"])]


def test_a_package_is_named_by_its_folder() -> None:
    assert module_name("coterie/wire/__init__.py") == "coterie.wire"
    assert module_name("coterie/wire/api.py") == "coterie.wire.api"
