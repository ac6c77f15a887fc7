"""The types that the signatures of public names mention, read from the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

PACKAGE = "coterie"
OPAQUE = {"Cluster"}
"""Exported to be passed on; its own methods are not public."""


class Mention(NamedTuple):
    """A name of the package that a public signature mentions."""

    where: str
    """The name whose signature it is."""
    module: str
    """The module that defines it."""
    name: str


def mentions(package: ModuleType) -> Iterator[Mention]:
    """Yield the names of `coterie` in the signatures of what a package exports: of
    functions, public methods and properties, fields, base classes and aliases."""
    for name in package.__all__:
        if name not in OPAQUE:
            yield from mentions_of(*_definition(package.__name__, name))


def mentions_of(module: str, node: ast.stmt) -> Iterator[Mention]:
    """Yield the names that one definition mentions, inherited ones included."""
    where = f"{module}.{getattr(node, 'name', '')}"
    for annotation in _annotations(node):
        for used in _names(annotation):
            if place := _origin(module, used):
                yield Mention(where, *place)
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        for used in _names(base):
            if place := _origin(module, used):
                yield from mentions_of(*_definition(*place))


def is_documented(package: ModuleType, name: str) -> bool:
    """Return whether a docstring follows the definition of an alias or a constant, or
    a class or function has one."""
    module, node = _definition(package.__name__, name)
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return bool(ast.get_docstring(node))
    body = _tree(module).body
    (after,) = body[body.index(node) + 1 : body.index(node) + 2] or [node]
    return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)


@cache
def _tree(module: str) -> ast.Module:
    source = Path(inspect.getsourcefile(import_module(module)) or "")
    stub = source.with_suffix(".pyi")  # of a package whose names are imported lazily
    return ast.parse((stub if stub.exists() else source).read_text("utf-8"))


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Return the module and name of each imported name, also of type checkers' ones."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def _definition(module: str, name: str) -> tuple[str, ast.stmt]:
    """Return the module that defines a name, and the definition."""
    while name not in _definitions(module):
        module, name = _imports(module)[name]
    return module, _definitions(module)[name]


def _annotations(node: ast.stmt) -> Iterator[ast.expr]:
    match node:
        case ast.ClassDef():
            for each in node.body:
                is_method = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_method and _is_public_method(each):
                    yield from _annotations(each)
                elif (
                    isinstance(each, ast.AnnAssign)
                    and isinstance(each.target, ast.Name)
                    and not each.target.id.startswith("_")
                ):
                    yield each.annotation
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = node.args
            for argument in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
            ):
                if argument.annotation is not None:
                    yield argument.annotation
            if node.returns is not None:
                yield node.returns
        case ast.AnnAssign(value=value, annotation=annotation):
            is_alias = ast.unparse(annotation) == "TypeAlias"
            yield value if is_alias and value is not None else annotation
        case _:
            return


def _is_public_method(node: ast.stmt) -> bool:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node.name == "__init__" or not node.name.startswith("_")


def _names(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names(ast.parse(node.value, mode="eval").body)


def _origin(module: str, name: str) -> tuple[str, str] | None:
    """Return the module of `coterie` that defines a name; None for names of others,
    type variables included."""
    while True:
        defined = _definitions(module).get(name)
        if defined is not None:
            is_variable = isinstance(defined, ast.Assign)
            return None if is_variable else (module, name)
        if name not in _imports(module):
            return None
        module, name = _imports(module)[name]
        if module.partition(".")[0] != PACKAGE:
            return None
