"""Each `pip install` line of Coterie works in a clone and an empty environment.

No release exists: a package index has nothing with Coterie's name, or something else.
So the lines of the README, the docs, the examples and the errors about missing
libraries install from a clone, and say so.

The lines run in a copy of this tree, without a network: the index is a directory. It
has the real packages of the lock that are small, setuptools for the build included.
Those of the pipeline (over a gigabyte) and of other projects are imitated: pip resolves
them by their real metadata, and nothing can be imported from them.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Final, cast

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coterie.extras import EXTRA_OF, describe_missing
from tests.support.package_index import (
    Index,
    create_environment,
    installed,
    newest_pip,
    own_pip,
)
from tools.locks import Pin, closure, lock_file, pins_for, read_lock, requirements_of
from tools.sources import ROOT, Source, read_sources

WHERE: Final = "in a clone of this repository, until there is a release"
"""What a page says at most NEAR lines before or after such a line."""
NEAR: Final = 10
RUN_S: Final = 250.0
REAL: Final = ("coterie[fast,pkcs12,ui]", "pytest", "confluent-kafka", "setuptools")
"""Packages that the index has with their content, and with what they require."""
MACHINE: Final = cast("Mapping[str, str]", default_environment())
LOCKED: Final = pins_for(read_lock(lock_file("dev")), MACHINE)
KIT: Final = """
def test_the_kit(kafka, kafka_topic):
    kafka.produce(kafka_topic, [b"one"])
    assert len(kafka.records(kafka_topic)) == 1
"""

TOOLS: Final = re.compile(r"install|uvx|uv add|pipx|poetry|pdm|coterie\[")
"""What a text has that may have a match of the patterns below."""
INLINE: Final = re.compile(r"(?<!`)`[^`\n]+(?:\n[^`\n]+)*`(?!`)")
INSTALL: Final = re.compile(r"\bpip3? install [^`\n]+")
END: Final = re.compile(r"\s(?:&&|[|;#])|[)]")
BY_NAME: Final = re.compile(
    r"""\b(?:pip3?\ (?:install|download|wheel)|pipx\ (?:install|run)|uvx|poetry\ add
    |pdm\ add|uv\ (?:add|pip\ install|tool\ (?:install|run))|conda\ install)\b
    [^`\n]*?[ '"]coterie(?=[\s'"`[=<>~!,;@]|$)
    |\bcoterie\[[a-z]""",
    re.VERBOSE | re.MULTILINE,
)
"""A command that installs Coterie by its name, or a requirement with an extra."""
WORD: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s'\"]+")
FROM_CLONE: Final = re.compile(r"\.(\[[\w,-]+\])?")


@cache
def texts() -> tuple[Source, ...]:
    """Return the texts for readers: pages, examples, and the source with its errors."""
    return tuple(
        each
        for each in read_sources()
        if each.path.startswith(("docs/", "examples/", "src/"))
        or ("/" not in each.path and each.path.endswith(".md"))
    )


def strings(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the text of a file or, of Python, its lines and its strings; each with the
    number of its first line. The parts of a string literal are joined."""
    if not TOOLS.search(source.text):
        return
    if not source.path.endswith(".py"):
        yield 1, source.text
        return
    yield from enumerate(source.lines, start=1)  # comments are no strings
    for node in ast.walk(source.tree):
        match node:
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.JoinedStr(values=parts):
                values = [getattr(each, "value", None) for each in parts]
                yield node.lineno, "".join(str(each) for each in values)


def unwrapped(text: str) -> str:
    """Join the lines of a continued command and of code inside a sentence; characters
    keep their places."""
    text = text.replace("\\\n", "  ")
    return INLINE.sub(lambda code: code[0].replace("\n", " "), text)


def found(pattern: re.Pattern[str], source: Source) -> Iterator[tuple[int, str]]:
    """Yield the matches of a pattern in a text, with their lines."""
    for first, text in strings(source):
        for match in pattern.finditer(unwrapped(text)):
            yield first + text.count("\n", 0, match.start()), match[0]


def install_commands(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the commands of a text that install Coterie from a clone."""
    for line, text in found(INSTALL, source):
        command = END.split(text)[0].strip()
        if any(FROM_CLONE.fullmatch(each) for each in words(command)):
            yield line, command


def words(command: str) -> list[str]:
    """Return the words of a command, or of a part of one, without their quotes."""
    return [each.strip("'\"") for each in WORD.findall(command)]


ERRORS: Final = tuple(Source("an error", describe_missing(each)) for each in EXTRA_OF)
PLAIN: Final = "pip install ."
COMMANDS: Final = sorted(
    {command for each in (*texts(), *ERRORS) for _, command in install_commands(each)}
)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("README.md", "a\n\n    pip install coterie\n", 3),
        ("docs/a.md", "```console\n$ pip install pytest coterie\n```\n", 2),
        ("docs/a.md", "a `pip install\n'coterie[ui]'` b\n", 1),
        ("docs/a.md", "a\nsee `uvx coterie`\n", 2),
        ("docs/a.md", "a (needs coterie[ui])\n", 1),
        ("docs/a.md", "    pip install pytest \\\n      coterie==1.0\n", 1),
        ("src/a.py", 'x = "not installed: pip install coterie"\n', 1),
        ("src/a.py", 'x = (\n    "run pip install "\n    f"coterie{a}"\n)\n', 2),
    ],
)
def test_an_installation_by_name_is_found(path: str, text: str, line: int) -> None:
    assert line in dict(found(BY_NAME, Source(path, text)))


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[ui]'",
        "pip install dist/coterie-*.tar.gz",
        "pip install pytest\ncoterie serve",
        "COTERIE_COMPILED=1 pip wheel . for `coterie`",
    ],
)
def test_other_commands_are_no_installation_by_name(text: str) -> None:
    assert list(found(BY_NAME, Source("docs/a.md", text))) == []


def test_no_text_installs_coterie_by_its_name() -> None:
    # The name belongs to nobody until there is a release.
    assert [
        f"{source.path}:{line}: {text}"
        for source in texts()
        for line, text in found(BY_NAME, source)
    ] == []


def test_each_page_says_where_its_commands_run() -> None:
    paths, silent = set(), []
    for source in texts():
        for line, command in install_commands(source):
            near = source.lines[max(0, line - 1 - NEAR) : line + NEAR]
            paths.add(source.path)
            if WHERE not in " ".join(" ".join(near).split()).lower():
                silent.append(f"{source.path}:{line}: {command}")
    assert "README.md" in paths
    assert PLAIN in COMMANDS
    assert silent == []


def test_patterns_are_quoted_as_zsh_requires() -> None:
    # zsh fails when a word with [ or * is the name of no file.
    pages = (each for each in texts() if not each.path.endswith(".py"))
    for source in (*pages, *ERRORS):
        for line, command in found(INSTALL, source):
            for word in WORD.findall(END.split(command)[0]):
                is_pattern = word[0] not in "'\"" and re.search(r"[][*?<>]", word)
                assert not is_pattern or "/" in word, f"{source.path}:{line}: {word}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Make an index of the locked packages and of others that the commands name."""
    index = Index(tmp_path_factory.mktemp("index") / "packages")
    real = {name for name, _ in closure(LOCKED, REAL, MACHINE, requirements_of)}
    for name, pin in LOCKED.items():
        if name in real:
            index.add_real(name)
        else:
            index.add_wheel(pin.requirement.name, pin.version, list(requires(pin)))
    for root in {each for command in COMMANDS for each in roots_of(command)}:
        name = canonicalize_name(Requirement(root).name)
        if name not in LOCKED and name != "coterie":
            index.add_wheel(name, "1.0", [])
    return index


def requires(pin: Pin) -> list[str]:
    try:
        return list(requirements_of(pin))
    except PackageNotFoundError:  # another version is installed here
        return []


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy this tree without what was built in it."""
    target = tmp_path_factory.mktemp("clone") / "coterie"
    built = (".*", "__pycache__", "*.egg-info", "build", "dist", "node_modules")
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*built))
    return target


@pytest.fixture(scope="module")
def pips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the directories of two versions of pip."""
    old = tmp_path_factory.mktemp("pip") / "venv"
    return {"Python's pip": own_pip(old), "the newest pip": newest_pip()}


class Reader:
    """An empty virtual environment, and the shell that has activated it."""

    def __init__(self, home: Path, pip: Path, index: Index) -> None:
        self.home = home / "venv"
        create_environment(self.home, pip)
        command = self.home / "bin" / "pip"
        python = shlex.quote(f"{self.home}/bin/python")
        command.write_text(f'#!/bin/sh\nexec {python} -m pip "$@"\n')
        command.chmod(0o755)
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST", "PIP_", "COTERIE"))
        }
        self._environment = {
            **own,
            "PATH": f"{self.home}/bin:{own['PATH']}",
            "VIRTUAL_ENV": str(self.home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": index.directory.as_uri(),
            "PIP_NO_COMPILE": "1",
            "PIP_NO_INDEX": "1",
        }

    def run(self, line: str, directory: Path) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def succeed(self, line: str, directory: Path) -> str:
        """Run a line of a shell that must succeed without a warning; return stdout."""
        done = self.run(line, directory)
        # pip only warns of an extra that does not exist.
        failed = done.returncode or done.stderr
        assert not failed, f"$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout


def roots_of(command: str) -> list[str]:
    """Return the requirements of a command, with Coterie's name for the clone."""
    return [
        f"coterie{each[1:]}" if FROM_CLONE.fullmatch(each) else each
        for each in words(command)[2:]
    ]


def install(reader: Reader, command: str, clone: Path, elsewhere: Path) -> None:
    """Run a command in the clone, and use what it installed elsewhere."""
    reader.succeed(command, clone)
    roots = roots_of(command)
    needed = {name for name, _ in closure(LOCKED, roots, MACHINE, requirements_of)}
    packages = installed(reader.home)
    assert {"coterie", *needed} - set(packages) == set()
    version = reader.succeed("coterie --version", elsewhere)
    assert version == f"coterie {packages['coterie']} (pure Python)\n"
    extras = {each for root in roots for each in Requirement(root).extras}
    extras -= {"pipeline"}
    libraries = [each for each, extra in EXTRA_OF.items() if extra in extras]
    imports = f"import {', '.join(['coterie', *libraries])}; print(coterie.__file__)"
    place = reader.succeed(f"python -c '{imports}'", elsewhere)
    assert place.startswith(str(reader.home))
    if "pytest" in roots:
        (elsewhere / "test_kit.py").write_text(KIT)
        assert "1 passed" in reader.succeed("pytest -q", elsewhere)


@pytest.mark.slow
@pytest.mark.timeout(600)  # pip builds Coterie, on busy machines in minutes
@pytest.mark.parametrize(
    ("command", "pip"),
    [
        *((each, "Python's pip") for each in COMMANDS if each != PLAIN),
        # The extra with most packages, and with an extra of its own.
        ("pip install '.[pipeline]'", "the newest pip"),
    ],
)
def test_a_command_installs_what_it_names(
    command: str,
    pip: str,
    clone: Path,
    index: Index,
    pips: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    install(Reader(tmp_path, pips[pip], index), command, clone, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)  # pip builds Coterie, on busy machines in minutes
def test_without_extras_commands_name_the_missing_library(
    clone: Path, index: Index, pips: Mapping[str, Path], tmp_path: Path
) -> None:
    reader = Reader(tmp_path, pips["Python's pip"], index)
    install(reader, PLAIN, clone, tmp_path)
    for line, library in (
        ("ui --bootstrap-server 127.0.0.1:1", "uvicorn"),
        ("serve --memory --listen 127.0.0.1:0 --ui 127.0.0.1:0", "uvicorn"),
        ("serve --memory --listen 127.0.0.1:0 --loop uvloop", "uvloop"),
        ("pipeline decode example-log", "numpy"),
        ("pipeline run --from segments:example-log --to lake", "pyarrow"),
        ("pipeline show current --lake lake", "pyarrow"),
        ("pipeline sql --lake lake 'SELECT 1'", "pyarrow"),
        ("pipeline report --lake lake --to report.html", "jinja2"),
    ):
        done = reader.run(f"coterie {line}", tmp_path)
        assert done.stderr == f"coterie: {describe_missing(library)}\n", line
        assert done.returncode == 2, line
