"""Check the rules of this project that no other tool checks; part of `make check`.

Each finding has file:line, the rule, and the correction. Figures without a limit
(lengths of files and functions, assertions per function) are printed at the end.

Rules of this file: a rule is one function from a `Source`, or from all of them, to
findings. A new rule needs a test with a violation.
"""

from __future__ import annotations

import ast
import posixpath
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tools import language, structure
from tools.sources import Finding, Function, Source, read_sources

ASSERTIONS_MIN: Final = 0.3
"""Assertions a function, on average, in the packages that hold state."""
ONE_IMPORTER_MAX: Final = 10
"""Modules under `structure.SMALL_LINES_MAX` lines that only one module imports."""

STATE: Final[Mapping[str, str]] = {
    "coordinator": "sim/invariants.py",
    "log": "",
    "runtime": "",
}
"""Packages that hold state, and the module of the invariants asserted of each."""
PURE: Final = ("wire", "protocol", "auth", "coordinator", "catalog")
PURE_FILES: Final = ("errors.py", "types.py", "settings.py")
WAITING_TESTS: Final = (
    "tests/real_clients/",
    "tests/crash/",
    "tests/support/",
    "tests/interop/gateway/failures/",
)
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
    "secrets": "CoordinatorEnvironment.new_id, or an argument",
    "uuid": "CoordinatorEnvironment.new_uuid, or an argument",
}
NOT_IN_UNIT_TESTS: Final[Mapping[str, str]] = {
    "time.sleep": "a fake clock, or a condition with a deadline in tests/real_clients",
    "asyncio.sleep": "a fake clock, an event, or a future",
}

# Written in parts, so that this file does not violate its own rule.
MACHINE_PATHS: Final = re.compile(
    r"(?<![\w.])/(work|tmp|root|home|opt)/"
    r"|py" + r"pi\.org|python" + r"hosted\.org|--(extra-)?index-url|--find" + r"-links"
    r"|crates\.io|npm" + r"js\.org|farm-(bench|studio)"
)
TEXT_MODE: Final = re.compile(r"[rwax]t?\+?")
LINKS: Final = re.compile(r"\]\(([^)#]+)[^)]*\)")


def purity(source: Source) -> Iterator[Finding]:
    """Refuse clocks, randomness and I/O in pure packages, which take them as
    arguments.
    """
    if source.package in PURE or source.package in PURE_FILES:
        yield from banned(source, NOT_IN_PURE, "pure package")


def unit_tests_do_not_sleep(source: Source) -> Iterator[Finding]:
    """Refuse sleeps in unit tests."""
    if source.path.startswith("tests/") and not source.path.startswith(WAITING_TESTS):
        for finding in banned(source, NOT_IN_UNIT_TESTS, "no sleep in a unit test"):
            # sleep(0) only yields to the event loop.
            if "asyncio.sleep(0)" not in source.lines[finding.line - 1]:
                yield finding


def machine_paths(source: Source) -> Iterator[Finding]:
    """Refuse paths of one machine and host names of package registries."""
    for number, line in enumerate(source.lines, start=1):
        if match := MACHINE_PATHS.search(line):
            advice = f"{match[0]!r} is of one machine: use a relative or temporary path"
            yield source.finding(number, "machine path", advice)


def text_encodings(source: Source) -> Iterator[Finding]:
    """Refuse text files in the encoding of the locale, which may lack characters."""
    is_used = source.path.startswith(("src/", "examples/", "tools/", "setup.py"))
    for node in ast.walk(source.tree) if is_used else ():
        if isinstance(node, ast.Call) and has_no_encoding(node):
            advice = 'add the encoding of the file, "utf-8"'
            yield source.finding(node.lineno, "text encoding", advice)


FILE_RULES: Final[tuple[Callable[[Source], Iterator[Finding]], ...]] = (
    purity,
    unit_tests_do_not_sleep,
    machine_paths,
    text_encodings,
    language.banned_words,
    language.imperative_docstrings,
)


def decisions_listed(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse decision records that ARCHITECTURE.md does not list."""
    texts = {source.path: source.text for source in sources}
    page = texts.get("ARCHITECTURE.md", "")
    for path in sorted(texts):
        if path.startswith("docs/decisions/") and path not in page:
            yield Finding(path, 1, "decision not listed", "add it to ARCHITECTURE.md")


def links_resolve(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse links of a page to files that are not in the repository."""
    sources = list(sources)
    known = {source.path for source in sources}
    for source in sources:
        for number, line in enumerate(source.lines, start=1):
            for target in LINKS.findall(line) if source.path.endswith(".md") else ():
                path = posixpath.normpath(
                    posixpath.join(posixpath.dirname(source.path), target)
                )
                if "://" not in target and path not in known:
                    yield source.finding(number, "dead link", f"{target} is missing")


def assertions(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse packages with state and too few assertions of their invariants."""
    sources = list(sources)
    for package in STATE:
        if (density := assertion_density(stateful(package, sources))) < ASSERTIONS_MIN:
            path = f"src/coterie/broker/{package}"
            advice = f"{density:.2f} a function, at least {ASSERTIONS_MIN}"
            yield Finding(path, 1, "assertions", f"{advice}: assert what must hold")


def stateful(package: str, sources: Iterable[Source]) -> list[Source]:
    """Return the files of a package that holds state, and its invariants."""
    return [
        source
        for source in sources
        if source.package == package or source.path == STATE[package]
    ]


def module_structure(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse import circles, duplicate class names and many one-importer modules."""
    paths = {
        structure.module_name(source.path.removeprefix("src/")): source
        for source in sources
        if source.path.startswith("src/") and source.path.endswith(".py")
    }
    texts = {name: source.text for name, source in paths.items()}
    graph = structure.import_graph(texts)
    for circle in structure.circles(graph):
        advice = f"{', '.join(circle[1:])} and this module import each other"
        yield paths[circle[0]].finding(1, "import circle", advice)
    for _, name, modules in structure.duplicate_classes(texts):
        advice = f"{name} is also a class of {', '.join(modules[1:])}"
        yield paths[modules[0]].finding(1, "duplicate class", advice)
    small = structure.one_importer(texts, graph)
    for name, importer, lines in small if len(small) > ONE_IMPORTER_MAX else ():
        advice = f"{lines} lines that only {importer} imports: merge some of these "
        advice += f"{len(small)} modules, at most {ONE_IMPORTER_MAX}"
        yield paths[name].finding(1, "one importer", advice)


def mirrored_tests(sources: Iterable[Source]) -> Iterator[Finding]:
    """Refuse unit tests whose name and folder lead to no module of src.

    The tests of `src/coterie/a/b.py` (or `b.sql`) are `tests/a/test_b.py`,
    `tests/a/test_b_ASPECT.py` for one aspect of a large module, or files in
    `tests/a/b/`. Tests of the whole package `a` are `tests/a/test_a_ASPECT.py`.
    """
    sources = list(sources)
    paths = [
        source.path for source in sources if source.path.startswith("src/coterie/")
    ]
    modules = {path.removesuffix(".py").removesuffix(".sql") for path in paths}
    modules |= {path.rpartition("/")[0] for path in paths}
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        mirrored = folder.replace("tests/", "src/coterie/", 1)
        package = "/".join(mirrored.split("/")[:3])
        if package not in modules or not name.startswith("test_"):
            continue
        words = name.removeprefix("test_").removesuffix(".py").split("_")
        stems = ["_".join(words[:size]) for size in range(1, len(words) + 1)]
        known = {f"{mirrored}/{stem}" for stem in stems} & modules
        of_module = f"{mirrored}.py" in paths
        of_package = mirrored.rpartition("/")[2] in stems
        if not (known or of_module or of_package):
            advice = f"no module of {mirrored} has this name: rename or move the tests"
            yield source.finding(1, "tests mirror src", advice)


TREE_RULES: Final[tuple[Callable[[Sequence[Source]], Iterator[Finding]], ...]] = (
    decisions_listed,
    links_resolve,
    assertions,
    module_structure,
    mirrored_tests,
    language.citations_resolve,
)


def lines_of(function: Function) -> int:
    """Count lines from the signature to the end of the body, docstring included."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def has_no_encoding(call: ast.Call) -> bool:
    """Return whether a call reads or writes a text file in the locale's encoding."""
    given = {each.arg: each.value for each in call.keywords}
    if "encoding" in given or None in given:
        return False
    match call.func:
        case ast.Attribute(attr="read_text"):
            return not call.args
        case ast.Attribute(attr="write_text"):
            return len(call.args) == 1
        case ast.Name(id="open"):
            modes = [*call.args[1:2], given.get("mode", ast.Constant("r"))]
        case ast.Attribute(attr="open") if len(call.args) == 1:
            modes = call.args
        case _:
            return False
    mode = ast.literal_eval(modes[0]) if isinstance(modes[0], ast.Constant) else None
    return isinstance(mode, str) and TEXT_MODE.fullmatch(mode) is not None


def assertion_density(sources: Sequence[Source]) -> float:
    """Return the assertions per function; 1.0 for a package without functions.

    Functions without a body, such as those of a Protocol, do not count.
    """
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    functions = sum(has_body(node) for node in nodes)
    asserted = sum(isinstance(node, ast.Assert) for node in nodes)
    return asserted / functions if functions else 1.0


def has_body(node: ast.AST) -> bool:
    """Return whether a node is a function with a body besides a docstring or an
    ellipsis.
    """
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(
        not (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        for step in node.body
    )


def banned(source: Source, names: Mapping[str, str], rule: str) -> Iterator[Finding]:
    """Yield each use of a banned name, imported or spelled out."""
    for line, used in sorted(set(used_names(source.tree))):
        if prefix := banned_prefix(used, names):
            yield source.finding(line, rule, f"{used}: use {names[prefix]}")


def banned_prefix(used: str, names: Mapping[str, str]) -> str | None:
    """Return the banned name that equals `used` or contains it."""
    parts = used.split(".")
    prefixes = (".".join(parts[:size]) for size in range(1, len(parts) + 1))
    return next((prefix for prefix in prefixes if prefix in names), None)


def used_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and full dotted name of each import, and of each attribute of an
    imported name.
    """
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
    """Yield the names that an import binds, and the full name of each."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.asname or alias.name.partition(".")[0]
            yield whole, alias.name if alias.asname else whole
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def dotted(node: ast.expr) -> str | None:
    """Return a name as written, `a.b.c`; None when it does not start with a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def find(sources: Sequence[Source]) -> list[Finding]:
    """Return the findings of every rule."""
    single = [
        each for source in sources for rule in FILE_RULES for each in rule(source)
    ]
    return [*single, *(each for rule in TREE_RULES for each in rule(sources))]


def watched(sources: Sequence[Source]) -> Iterator[str]:
    """Yield the figures without a limit."""
    ours = [source for source in sources if source.package and source.tree.body]
    files = [len(source.lines) for source in ours]
    lengths = [lines_of(function) for each in ours for function in each.functions]
    yield (
        f"{len(files)} files of code in src, {sum(files)} lines, median "
        f"{statistics.median(files or [0]):g}; {len(lengths)} functions, median "
        f"{statistics.median(lengths or [0]):g} lines"
    )
    for package in STATE:
        density = assertion_density(stateful(package, sources))
        yield f"assertions a function in {package}: {density:.2f}"


def main() -> int:
    """Print findings and figures; return 1 when there are findings."""
    sources = read_sources()
    findings = find(sources)
    for finding in findings:
        print(finding)
    for line in watched(sources):
        print(line)
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
