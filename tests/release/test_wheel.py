"""The source distribution builds the wheel, and the wheel installs all of Coterie.

Both are built in a temporary directory with the setuptools of this environment. The
wheel is installed into a virtual environment that takes the dependencies, and nothing
else, from this one, so these tests need no network.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from configparser import ConfigParser
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tools.sources import ROOT

pytestmark = pytest.mark.slow

SOURCES = ("src/coterie", "tools", "tests/support", "tests/tools")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", *("README.md", "LICENSE"))
PAGES = ("CHANGELOG.md", "SECURITY.md")
INSTALLED_MAX = 30_000_000
"""Bytes of Coterie and its dependencies, as pip installs them, with their bytecode."""
READY = "coterie ready on "
STOP_S = 60.0
RUN_S = 100.0


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**outside(), **(env or {})},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outside() -> dict[str, str]:
    """Return the environment without what leads to this source tree."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def build(kind: str, source: Path, target: Path) -> Path:
    """Call setuptools as a build frontend does (PEP 517); return the file."""
    hook = f"import setuptools.build_meta as b; print(b.build_{kind}({str(target)!r}))"
    epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
    output = run(sys.executable, "-c", hook, cwd=source, env=epoch)
    return target / output.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution from a copy of the tree."""
    tree = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for name in (*FILES, *PAGES):
        shutil.copy(ROOT / name, tree / name)
    return build("sdist", tree, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the unpacked source distribution."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel; return the virtual environment."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", home, "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=home)
    # A .pth file adds the directory without its own .pth files, of which one leads to
    # the editable install of this tree.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def test_the_source_distribution_has_what_builds_the_wheel_and_no_tests(
    sdist: Path,
) -> None:
    with tarfile.open(sdist) as archive:
        names = [each.partition("/")[2] for each in archive.getnames()]
    outside_src = {each for each in names if not each.startswith("src/")}
    generated = {"", "PKG-INFO", "setup.cfg", "src", "tools"}
    assert outside_src - generated == {*FILES, *PAGES, "tools/man_pages.py"}


def test_the_wheel_is_pure_and_has_its_data_but_no_tests_or_c_sources(
    wheel: Path,
) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    data = {each for each in names if not each.endswith(".py")}
    package = {each for each in data if each.startswith("coterie/")}
    assert package >= {
        "coterie/py.typed",
        "coterie/broker/__init__.pyi",
        "coterie/client/__init__.pyi",
        "coterie/client/admin/__init__.pyi",
        "coterie/operations/__init__.pyi",
        "coterie/pipeline/log4j2.properties",
        "coterie/wire/kafka_releases.tsv",
    }
    assert any(each.startswith("coterie/pipeline/report/templates/") for each in data)
    suffixes = {Path(each).suffix for each in names}
    assert not suffixes & {".c", ".h", ".o", ".so", ".pyc", ".pyd", ".sh"}
    assert not [each for each in names if re.search(r"(^|/)(tests?|conftest)\b", each)]
    tops = {each.partition("/")[0].partition("-")[0] for each in names}
    assert tops == {"coterie"}


def test_the_wheel_has_the_entry_points_of_the_project(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = {
        "console_scripts": project["scripts"],
        **project.get("entry-points", {}),
    }
    parser = ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if "entry_points.txt" in each)
        parser.read_string(archive.read(name).decode())
    assert {each: dict(parser[each]) for each in parser.sections()} == expected


def test_the_program_says_the_version_outside_the_source_tree(
    installed: Path, tmp_path: Path
) -> None:
    version = distribution("coterie").version
    expected = f"coterie {version} (pure Python)\n"
    assert run(installed / "bin/coterie", "--version", cwd=tmp_path) == expected
    python = installed / "bin/python"
    place = run(python, "-c", "import coterie; print(coterie.__path__)", cwd=tmp_path)
    assert str(installed) in place


def test_the_installed_server_starts_and_stops_cleanly(
    installed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "stdout"
    command = [str(installed / "bin/coterie"), "serve", "--memory"]
    with output.open("wb") as stdout:
        server = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=outside(),
        )
    try:
        eventually(
            lambda: server.poll() is not None or READY in output.read_text(),
            within_s=60,
            expected="the server is ready",
        )
        assert server.poll() is None
        address = output.read_text().partition(READY)[2].split()[0]
        groups = ("groups", "list", "--bootstrap-server", address, "-o", "json")
        listed = run(installed / "bin/coterie", *groups, cwd=tmp_path)
        assert '"items": []' in listed
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=STOP_S)
        assert server.returncode == 0, log
    finally:
        server.kill()
        server.wait()


def test_man_finds_a_page_for_coterie_and_for_each_command(installed: Path) -> None:
    pages = installed / "share/man/man1"
    names = {each.name for each in pages.iterdir()}
    assert {"coterie.1", "coterie-serve.1", "coterie-groups.1"} <= names
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    for page in sorted(pages.iterdir()):
        shown = subprocess.run(
            ["man", "--warnings", "-l", str(page)],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
            timeout=RUN_S,
            check=False,
        )
        # Minimal images of Linux distributions have a man that shows no pages.
        if b"minimized" in shown.stdout + shown.stderr or shown.returncode == 127:
            pytest.skip("man shows no pages on this machine")
        assert (shown.returncode, shown.stderr) == (0, b"")
        assert b"NAME" in shown.stdout


@pytest.mark.parametrize(
    ("shell", "file", "check"),
    [
        (
            "bash",
            "bash-completion/completions/coterie",
            'source "$1"; complete -p coterie',
        ),
        (
            "zsh",
            "zsh/site-functions/_coterie",
            'fpath=(${1:h} $fpath); autoload -Uz compinit; compinit -u -d "$1.dump";'
            ' print $_comps[coterie]; rm -f "$1.dump"',
        ),
        (
            "fish",
            "fish/vendor_completions.d/coterie.fish",
            "source $argv[1]; complete -c coterie",
        ),
    ],
)
def test_the_completion_file_registers_coterie_with_its_shell(
    shell: str, file: str, check: str, installed: Path, tmp_path: Path
) -> None:
    path = installed / "share" / file
    assert path.is_file()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = () if shell == "fish" else (shell,)
    on_path = {"PATH": f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    assert "coterie" in run(shell, "-c", check, *words, path, cwd=tmp_path, env=on_path)


def test_coterie_and_its_dependencies_are_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        # Bytecode is about as large as the source; pip compiles what it installs.
        own = sum(
            each.file_size * (2 if each.filename.endswith(".py") else 1)
            for each in archive.infolist()
        )
        (metadata,) = (
            each for each in archive.namelist() if each.endswith("/METADATA")
        )
        required = message_from_bytes(archive.read(metadata)).get_all("Requires-Dist")
    assert required
    sizes = {name: size_of(name) for name in dependencies(required)}
    total = own + sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda each: -each[1])[:5]
    assert total < INSTALLED_MAX, f"{total:,} bytes; own {own:,}; largest {largest}"


def dependencies(requirements: Iterable[str]) -> set[str]:
    """Return the names of what is required without extras, directly or not."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        line = waiting.pop()
        required = re.match(r"[\w.-]+", line)
        assert required
        name = re.sub(r"[-_.]+", "-", required[0]).lower()
        if name in found or "extra ==" in line:
            continue
        try:
            waiting += distribution(name).requires or ()
        except PackageNotFoundError:
            continue  # for another platform or version of Python
        found.add(name)
    return found


def size_of(name: str) -> int:
    files = distribution(name).files or ()
    paths = {Path(str(each.locate())) for each in files}
    return sum(each.stat().st_size for each in paths if each.is_file())
