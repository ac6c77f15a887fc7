"""Mutation operators: small faults at places of a syntax tree.

Each operator yields replacements of parts of the source, so that a mutant differs from
its file in one place and a diff shows it. Places where a fault changes no behaviour are
left out: assertions, annotations, decorators, docstrings, log lines and texts.

This is a module of our own instead of mutmut or cosmic-ray, which run one command for
each mutant: `mutation/sandbox.py` forks, and runs only the tests that cover the line.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, ...]]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
SIGNS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
ARITHMETIC: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
CALLS: Final[Mapping[str, str]] = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "reversed": "list",
}
SYMMETRIC: Final = frozenset({"isinstance", "cast", "getattr", "min", "max"})
"""Calls whose arguments are not swapped, as that changes nothing or cannot be."""
EMPTY: Final = frozenset({"()", "[]", "{}", '""', "0", "False"})
"""Returned values that None replaces without a difference."""
LOGGERS: Final = frozenset({"_LOGGER", "logging"})
SHOWN: Final = frozenset({"__repr__", "__str__"})


SourceOf: TypeAlias = Callable[[ast.AST], str]
"""The source text of a node."""


class Mutant(NamedTuple):
    """A change of one place of a file.

    `old` and `new` are the changed lines, each in one line. They identify a mutant
    together with `within` when line numbers move.
    """

    path: str
    within: str
    operator: str
    old: str
    new: str
    line: int
    statement: int
    """The first line of the statement with the change."""
    at_import: bool
    """Whether the place is outside functions, so that it runs at import."""
    start: int
    end: int
    source: str
    """The new source of the file from `start` to `end`."""

    def apply(self, text: str) -> str:
        """Return the changed file."""
        return text[: self.start] + self.source + text[self.end :]

    def diff(self, text: str) -> str:
        """Return the change in the unified format, with two lines of context."""
        before, after = text.splitlines(), self.apply(text).splitlines()
        lines = difflib.unified_diff(before, after, self.path, self.path, n=2)
        return "\n".join(line.rstrip("\n") for line in lines)


class Replacement(NamedTuple):
    """The new source of a node."""

    node: ast.expr | ast.stmt
    operator: str
    source: str


class _Place(NamedTuple):
    """A node, with the function or class and the statement that have it."""

    node: ast.AST
    within: str
    statement: int
    at_import: bool


class _Text:
    """A source file in which nodes are found by their lines and columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a column, which ast counts in bytes of UTF-8."""
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def extent(self, node: Any) -> tuple[int, int]:
        """Return the start and end of a node."""
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.AST) -> str:
        """Return the source of a node."""
        start, end = self.extent(node)
        return self.text[start:end]


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    file = _Text(text)
    mutants: dict[tuple[int, int, str], Mutant] = {}
    for place in _places(_Place(ast.parse(text), "", 1, at_import=True)):
        for operator in OPERATORS:
            for made in operator(place.node, file.source):
                mutant = _mutant(path, file, place, made)
                if mutant.old != mutant.new:
                    key = mutant.start, mutant.end, mutant.source
                    mutants.setdefault(key, mutant)
    return sorted(mutants.values(), key=lambda each: (each.line, each.start, each.new))


def _mutant(path: str, file: _Text, place: _Place, made: Replacement) -> Mutant:
    start, end = file.extent(made.node)
    assert made.node.end_lineno is not None
    first, last = file.starts[made.node.lineno - 1], file.starts[made.node.end_lineno]
    before = file.text[first:last]
    after = file.text[first:start] + made.source + file.text[end:last]
    return Mutant(
        path,
        place.within,
        made.operator,
        " ".join(before.split()),
        " ".join(after.split()),
        made.node.lineno,
        place.statement,
        place.at_import,
        start,
        end,
        made.source,
    )


def compiles(text: str) -> bool:
    """Return whether a text is valid Python."""
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _places(parent: _Place) -> Iterator[_Place]:
    """Yield the places below a node that may be changed."""
    for field, child in _children(parent.node):
        if _is_left_out(child):
            continue
        place = parent._replace(node=child)
        if isinstance(child, Definition):
            within = f"{parent.within}.{child.name}".lstrip(".")
            place = place._replace(within=within)
        if isinstance(child, ast.stmt):
            is_body = field == "body" and isinstance(parent.node, Function)
            at_import = parent.at_import and not is_body
            place = place._replace(statement=child.lineno, at_import=at_import)
        yield place
        yield from _places(place)


Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the children of a node but annotations, decorators and bases, with the
    names of their fields.
    """
    left_out = {"annotation", "returns", "decorator_list", "bases"}
    if isinstance(node, ast.ClassDef):
        left_out.add("keywords")
    for name, value in ast.iter_fields(node):
        if name not in left_out:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield name, child


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, Definition):
        return node.name in SHOWN
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    if isinstance(node, ast.Expr):
        is_log = _name_of(node.value).partition(".")[0] in LOGGERS
        return is_log or isinstance(node.value, ast.Constant)
    # Names of types, as in NewType and TypeVar.
    return _name_of(node) in {"TypeVar", "NewType"}


def _name_of(node: ast.AST) -> str:
    """Return the dotted name that a call uses; "" for another expression."""
    if not isinstance(node, ast.Call):
        return ""
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    return ".".join(reversed(parts)).removeprefix("self.")


def comparison(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Move the boundary of a comparison, or turn it round."""
    if not isinstance(node, ast.Compare) or len(node.ops) > 1:
        return
    left, right = source(node.left), source(node.comparators[0])
    for sign in COMPARISONS[type(node.ops[0])]:
        yield Replacement(node, "comparison", f"({left} {sign} {right})")


def chained_comparison(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Move a boundary of `a < b < c`."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 2:
        return
    left, middle, right = map(source, (node.left, *node.comparators))
    for sign in COMPARISONS[type(node.ops[0])]:
        rest = f"{SIGNS[type(node.ops[1])]} {right}"
        yield Replacement(node, "comparison", f"({left} {sign} {middle} {rest})")
    for sign in COMPARISONS[type(node.ops[1])]:
        first = f"{left} {SIGNS[type(node.ops[0])]} {middle}"
        yield Replacement(node, "comparison", f"({first} {sign} {right})")


def boolean(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Swap `and` and `or`, and drop each operand."""
    if not isinstance(node, ast.BoolOp):
        return
    parts = [f"({source(each)})" for each in node.values]
    usual, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    yield Replacement(node, "and/or", "(" + f" {other} ".join(parts) + ")")
    for dropped in range(len(parts)):
        rest = [part for at, part in enumerate(parts) if at != dropped]
        joined = f" {usual} ".join(rest)
        yield Replacement(node, "operand dropped", f"({joined})")


def negation(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Negate a condition, and drop `not`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Replacement(node, "not dropped", f"({source(node.operand)})")
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            continue  # the operator of comparisons negates it
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            continue
        yield Replacement(test, "condition negated", f"(not ({source(test)}))")


def condition(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Take a condition as always true, or as never true."""
    if isinstance(node, ast.If):
        yield Replacement(node.test, "condition false", "False")
        yield Replacement(node.test, "condition true", "True")
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield Replacement(test, "condition true", "True")


def constant(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Move a number by one, and turn True and False round."""
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield Replacement(node, "constant", repr(not node.value))
    elif isinstance(node.value, int):
        for value in (node.value + 1, node.value - 1):
            yield Replacement(node, "constant", f"({value})")


def arithmetic(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Replace an arithmetic operator."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = source(node.left), source(node.right)
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return
        sign = ARITHMETIC[type(node.op)]
        yield Replacement(node, "arithmetic", f"(({left}) {sign} ({right}))")
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        target, value = source(node.target), source(node.value)
        sign = ARITHMETIC[type(node.op)]
        yield Replacement(node, "arithmetic", f"{target} {sign}= {value}")


def statement(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Delete a statement with an effect besides binding a name."""
    effects = (ast.Continue, ast.Break, ast.AugAssign, ast.Delete, ast.Raise)
    targets = node.targets if isinstance(node, ast.Assign) else []
    stores = any(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
    calls = isinstance(node, ast.Expr) and not isinstance(
        node.value, ast.Yield | ast.YieldFrom
    )
    if isinstance(node, effects) or stores or calls:
        assert isinstance(node, ast.stmt)
        yield Replacement(node, "statement deleted", "pass")


def returned(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Replace a returned value by None, and a returned condition by its opposite."""
    if not isinstance(node, ast.Return) or node.value is None:
        return
    is_none = isinstance(node.value, ast.Constant) and node.value.value is None
    text = source(node.value)
    if is_none or text in EMPTY or text.endswith(("set()", "dict()", "Result()")):
        return
    kinds = (ast.BoolOp, ast.UnaryOp, ast.Compare)
    if isinstance(node.value, kinds) or _name_of(node.value) in {"any", "all", "bool"}:
        yield Replacement(node, "return negated", f"return not ({source(node.value)})")
    else:
        yield Replacement(node, "return None", "return None")


def argument(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Drop a keyword argument, and swap two neighbouring arguments."""
    if not isinstance(node, ast.Call):
        return
    function = source(node.func)
    given = [source(each) for each in node.args]
    named = [source(each) for each in node.keywords]
    # Calls with one argument per line lose their lines, which the diff shows.
    for dropped, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = [part for at, part in enumerate(named) if at != dropped]
            shorter = f"{function}({', '.join((*given, *rest))})"
            yield Replacement(node, "argument dropped", shorter)
    if len(given) == 2 and not any(isinstance(each, ast.Starred) for each in node.args):
        swapped = ", ".join((given[1], given[0], *named))
        if _name_of(node) not in SYMMETRIC:
            yield Replacement(node, "arguments swapped", f"{function}({swapped})")


def called(node: ast.AST, source: SourceOf) -> Iterator[Replacement]:
    """Replace a builtin function by its counterpart."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        other = CALLS.get(node.func.id, node.func.id)
        yield Replacement(node.func, "function", other)


OPERATORS: Final[tuple[Callable[[ast.AST, SourceOf], Iterator[Replacement]], ...]] = (
    *(comparison, chained_comparison, boolean, negation, condition, constant),
    *(arithmetic, statement, returned, argument, called),
)
