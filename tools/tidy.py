"""The house rules that no other tool checks, over the whole tree; in `make check`.

Each finding says file:line, the rule, and what to do. The numbers come from the
codebases that we like to read; ARCHITECTURE.md and CONTRIBUTING.md refer to them.
Figures that are only watched (median function length, assertions a function) are
printed at the end.

Rules of this file: it reads text and syntax trees, imports nothing it checks, and a
rule is one function from a `Source` to findings. A new rule needs a test that
breaks it.
"""

from __future__ import annotations

import ast
import posixpath
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parent.parent

FILE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
FUNCTION_LINES_MEDIAN_MAX: Final = 10
PARAMETERS_MAX: Final = 6
ASSERTIONS_MIN: Final = 0.3
"""Assertions a function, on average, in the packages that hold state."""

FOLDERS: Final = (
    *("src/coterie", "tests", "tools", "examples", "benchmarks", "fuzz", "sim"),
    *("docs", ".ci"),
)
TEXT: Final = frozenset({".py", ".md", ".toml", ".tsv", ".txt", ".sh", ".c", ""})
STATE: Final = ("coordinator", "log", "runtime")
PURE: Final = ("wire", "protocol", "auth", "coordinator", "catalog")
PURE_FILES: Final = ("errors.py", "types.py", "settings.py")
WAITING_TESTS: Final = ("tests/clients/", "tests/crash/")
"""Tests that talk to processes: they wait on conditions, with deadlines."""

NOT_IN_PURE: Final[Mapping[str, str]] = {
    "asyncio": "a plain function; runtime and server own the event loop",
    "socket": "bytes in and bytes out; server owns the sockets",
    "threading": "a plain function; the log's flusher owns the one thread",
    "time": "Context.now_ms, or an argument now_ms",
    "datetime.datetime.now": "Context.now_ms, or an argument now_ms",
    "datetime.datetime.today": "Context.now_ms, or an argument now_ms",
    "datetime.datetime.utcnow": "Context.now_ms, or an argument now_ms",
    "random": "an argument, so that a seed can replay it",
    "secrets": "Context.fresh_id, or an argument",
    "uuid": "Context.fresh_id, or an argument",
}
NOT_IN_UNIT_TESTS: Final[Mapping[str, str]] = {
    "time.sleep": "a fake clock, or a condition with a deadline in tests/clients",
    "asyncio.sleep": "a fake clock, an event, or a future",
}

LEFTOVERS: Final = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
PLACES: Final = re.compile(
    r"(?<![\w.])/(work|tmp|root|home|opt)/"
    r"|py" + r"pi\.org|python" + r"hosted\.org|--(extra-)?index-url|--find" + r"-links"
    r"|crates\.io|npm" + r"js\.org|farm-(bench|studio)"
)


LINKS: Final = re.compile(r"\]\(([^)#]+)[^)]*\)")


class Finding(NamedTuple):
    """One broken rule, where, and what to do about it."""

    path: str
    line: int
    rule: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.advice}"


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


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
        """The syntax tree; empty for what is not Python."""
        return ast.parse(self.text if self.path.endswith(".py") else "")

    @cached_property
    def functions(self) -> list[Function]:
        """Every function and method, nested ones too."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def package(self) -> str:
        """The room of src/coterie the file stands in, or its name there; "" outside."""
        if not self.path.startswith("src/coterie/"):
            return ""
        return self.path.split("/")[2]

    def finding(self, line: int, rule: str, advice: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, rule, advice)


def file_length(source: Source) -> Iterator[Finding]:
    """A file over 500 lines holds more than one thing; tables of data are exempt."""
    if source.path.endswith(".py") and len(source.lines) > FILE_LINES_MAX:
        advice = f"{len(source.lines)} lines, at most {FILE_LINES_MAX}: split the file"
        yield source.finding(FILE_LINES_MAX + 1, "file length", advice)


def function_length(source: Source) -> Iterator[Finding]:
    """A function over 70 lines needs a scroll to be read."""
    for function in source.functions:
        if (length := lines_of(function)) > FUNCTION_LINES_MAX:
            advice = f"{function.name} has {length} lines, at most {FUNCTION_LINES_MAX}"
            yield source.finding(
                function.lineno, "function length", f"{advice}: take steps out of it"
            )


def parameter_count(source: Source) -> Iterator[Finding]:
    """More than six parameters are a value that has no name yet; self is none."""
    if source.path.startswith("tests/"):
        return  # fixtures are parameters
    for function in source.functions:
        if (count := parameters_of(function)) > PARAMETERS_MAX:
            advice = f"{function.name} takes {count}, at most {PARAMETERS_MAX}"
            yield source.finding(
                function.lineno, "parameters", f"{advice}: put them in a named value"
            )


def purity(source: Source) -> Iterator[Finding]:
    """Time, chance, ids and the world reach a pure package by argument alone."""
    if source.package in PURE or source.package in PURE_FILES:
        yield from banned(source, NOT_IN_PURE, "pure package")


def unit_tests_do_not_sleep(source: Source) -> Iterator[Finding]:
    """A test that sleeps is slow when it passes and wrong when it fails."""
    if source.path.startswith("tests/") and not source.path.startswith(WAITING_TESTS):
        for finding in banned(source, NOT_IN_UNIT_TESTS, "no sleep in a unit test"):
            # To sleep for no time is to let the loop turn.
            if "asyncio.sleep(0)" not in source.lines[finding.line - 1]:
                yield finding


def leftovers(source: Source) -> Iterator[Finding]:
    """What is not done belongs in an issue, where somebody looks."""
    for number, line in enumerate(source.lines, start=1):
        if match := LEFTOVERS.search(line):
            advice = f"{match[0]} left: do it, or say it in an issue"
            yield source.finding(number, "leftover", advice)


def places(source: Source) -> Iterator[Finding]:
    """A clone works anywhere: no path of one machine, no host of a registry."""
    for number, line in enumerate(source.lines, start=1):
        if match := PLACES.search(line):
            advice = f"{match[0]!r} is of one machine: use a relative or temporary path"
            yield source.finding(number, "machine path", advice)


RULES: Final[tuple[Callable[[Source], Iterator[Finding]], ...]] = (
    file_length,
    function_length,
    parameter_count,
    purity,
    unit_tests_do_not_sleep,
    leftovers,
    places,
)


def decisions_listed(sources: Iterable[Source]) -> Iterator[Finding]:
    """A decision that ARCHITECTURE.md does not list is read by nobody."""
    texts = {source.path: source.text for source in sources}
    page = texts.get("ARCHITECTURE.md", "")
    for path in sorted(texts):
        if path.startswith("docs/decisions/") and path not in page:
            yield Finding(path, 1, "decision not listed", "add it to ARCHITECTURE.md")


def links_lead_somewhere(sources: Iterable[Source]) -> Iterator[Finding]:
    """A link of a page to a file of ours leads to one that is there."""
    known = {source.path for source in sources}
    for source in sources:
        for number, line in enumerate(source.lines, start=1):
            for target in LINKS.findall(line) if source.path.endswith(".md") else ():
                path = posixpath.normpath(
                    posixpath.join(posixpath.dirname(source.path), target)
                )
                if "://" not in target and path not in known:
                    yield source.finding(number, "dead link", f"{target} is not there")


def assertions(sources: Iterable[Source]) -> Iterator[Finding]:
    """Code that holds state says in assertions what it relies on."""
    for package in STATE:
        members = [source for source in sources if source.package == package]
        if (density := assertion_density(members)) < ASSERTIONS_MIN:
            path = f"src/coterie/{package}"
            advice = f"{density:.2f} a function, at least {ASSERTIONS_MIN}"
            yield Finding(path, 1, "assertions", f"{advice}: assert what must hold")


def lines_of(function: Function) -> int:
    """Lines from the signature to the end of the body, docstring included."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def parameters_of(function: Function) -> int:
    """What a caller may pass, *args and **kwargs one each, self and cls not."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = bool(names) and names[0] in {"self", "cls"}
    return len(names) - own + bool(given.vararg) + bool(given.kwarg)


def assertion_density(sources: Sequence[Source]) -> float:
    """Assertions a function; 1.0 for a package that has no function yet.

    Counted are functions that do something: not a Protocol's, which only say it.
    """
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    functions = sum(does_something(node) for node in nodes)
    asserted = sum(isinstance(node, ast.Assert) for node in nodes)
    return asserted / functions if functions else 1.0


def does_something(node: ast.AST) -> bool:
    """Whether a node is a function with more to it than its docstring or dots."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(
        not (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        for step in node.body
    )


def banned(source: Source, names: Mapping[str, str], rule: str) -> Iterator[Finding]:
    """Each use of a name that may not be used here, imported or spelled out."""
    for line, used in sorted(set(used_names(source.tree))):
        if instead := banned_prefix(used, names):
            yield source.finding(line, rule, f"{used}: use {names[instead]}")


def banned_prefix(used: str, names: Mapping[str, str]) -> str | None:
    """The banned name that `used` is or lies below."""
    parts = used.split(".")
    prefixes = (".".join(parts[:size]) for size in range(1, len(parts) + 1))
    return next((prefix for prefix in prefixes if prefix in names), None)


def used_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of what a module imports and reaches through it."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        for alias, origin in imported(node):
            origins[alias] = origin
            assert isinstance(node, ast.stmt)
            yield node.lineno, origin
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := dotted(node)):
            head, _, rest = name.partition(".")
            if head in origins:
                yield node.lineno, f"{origins[head]}.{rest}"


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names an import binds, and what each stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.asname or alias.name.partition(".")[0]
            yield whole, alias.name if alias.asname else whole
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def dotted(node: ast.expr) -> str | None:
    """The name as written, `a.b.c`; None when it starts with anything but a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def read_sources(root: Path) -> list[Source]:
    """Every text file that people write, in the order of their paths."""
    top = [path for path in root.iterdir() if not path.name.startswith(".")]
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted({*top, *below})
        if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts
    ]


def find(sources: Sequence[Source]) -> list[Finding]:
    """Everything that breaks a rule."""
    single = [each for source in sources for rule in RULES for each in rule(source)]
    whole = (decisions_listed, links_lead_somewhere, assertions)
    return [*single, *(each for rule in whole for each in rule(sources))]


def watched(sources: Sequence[Source]) -> Iterator[str]:
    """The figures that are printed but fail nothing."""
    ours = [source for source in sources if source.package]
    lengths = [lines_of(function) for each in ours for function in each.functions]
    median = statistics.median(lengths) if lengths else 0
    yield (
        f"{len(lengths)} functions in {len(ours)} files of src, median length "
        f"{median:g} (aim: under {FUNCTION_LINES_MEDIAN_MAX})"
    )
    for package in STATE:
        members = [source for source in ours if source.package == package]
        yield f"assertions a function in {package}: {assertion_density(members):.2f}"


def main() -> int:
    """Print findings and figures; 1 when a rule is broken."""
    sources = read_sources(ROOT)
    findings = find(sources)
    for finding in findings:
        print(finding)
    for line in watched(sources):
        print(line)
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
