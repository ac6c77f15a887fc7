"""Tests pass in any environment: variables, locale, time zone, umask and home."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from coterie.cli import setting_sources
from tests.support.environment import NAMES, OWN, PREFIXES, REAL_HOME, isolate

ROOT = Path(__file__).parents[2]
FILES = [
    each
    for pattern in (
        "*.md",
        "setup.py",
        "docs/**/*.md",
        "examples/**/*.*",
        "src/**/*.py",
    )
    for each in ROOT.glob(pattern)
]
VARIABLE = re.compile(r"COTERIE_[A-Z0-9_]*[A-Z0-9]")
READ = re.compile(r"""environ(?:ment)?(?:\.get\(|\[|, )["']([A-Z0-9_]+)["']""")
SET = {"HOME", "LC_ALL", "NO_PROXY", "no_proxy"}
"""The variables that tests have in every environment."""
NO_NONSENSE = {
    "LC_ALL": "C",
    "PYTEST_ADDOPTS": "--color=yes",
    "PYTHONASYNCIODEBUG": "1",
    "PYTHONDEVMODE": "",
    "PYTHONINSPECT": "",
    "PYTHONIOENCODING": "ascii",
    "PYTHONOPTIMIZE": "",
    "PYTHONUTF8": "0",
    "PYTHONWARNINGS": "default",
    "_ARGCOMPLETE": "",
}
"""Variables without which Python or pytest does not start."""
PAGE = "tests/docs/test_pages.py::test_the_code_of_a_page_runs[guides/{}.md]"
SAMPLE = (
    "tests/broker/server/test_health.py",
    "tests/cli/gateway",
    "tests/cli/groups/test_list.py",
    "tests/cli/kafka_consumer_groups/test_reset.py",
    "tests/cli/output",
    "tests/cli/test_config_explain.py",
    "tests/cli/test_main.py",
    "tests/cli/test_serve.py",
    "tests/cli/test_setting_sources.py",
    PAGE.format("connect-with-tls"),
    PAGE.format("reset-a-group"),
    "tests/test_files.py",
)
RUN_S = 300


@cache
def documented() -> frozenset[str]:
    """Return the variables that Coterie reads or its documentation mentions."""
    names = set(setting_sources._VARIABLES)
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        names |= {*VARIABLE.findall(text), *READ.findall(text)}
    return frozenset(each for each in names - {"PATH"} if not each.startswith(OWN))


def test_variables_are_found_where_they_are_declared_and_read() -> None:
    found = documented()
    assert {"COTERIE_BOOTSTRAP_SERVER", "COTERIE_SASL_PASSWORD"} <= found
    assert {"COTERIE_COMPILED", "COTERIE_LAKE", "COTERIE_UI_TOKEN"} <= found
    assert {"COLUMNS", "JAVA_HOME", "NO_COLOR", "XDG_STATE_HOME"} <= found


def test_no_variable_of_the_documentation_reaches_a_test() -> None:
    environ = dict.fromkeys(documented(), "nonsense")
    isolate(environ, "home")
    assert environ.keys() == SET


def test_variables_of_the_tests_themselves_are_kept() -> None:
    environ = {f"{OWN}BOOTSTRAP": "a:1", "HOME": "mine", "PATH": "/bin"}
    isolate(environ, "home")
    isolate(environ, "another")
    assert environ[f"{OWN}BOOTSTRAP"] == "a:1"
    assert (environ["PATH"], environ["HOME"]) == ("/bin", "another")
    assert environ[REAL_HOME] == "mine"


@pytest.mark.slow
def test_tests_pass_in_a_hostile_environment(tmp_path: Path) -> None:
    home = tmp_path / "hö me"
    profiles = home / ".config" / "coterie" / "profiles.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text('[default]\nclient.id = "mine"\n', encoding="utf-8")
    temporary = tmp_path / "link to"
    temporary.symlink_to(tmp_path / "t mp")
    temporary.readlink().mkdir()
    names = {*documented(), *NAMES, *(f"{each}NONSENSE" for each in PREFIXES)}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE],
        cwd=ROOT,
        env={
            **os.environ,
            **dict.fromkeys(names - SET, "nonsense"),
            **NO_NONSENSE,
            "HOME": str(home),
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "",
            "TMPDIR": str(temporary),
            "TZ": "NST3:30NDT,M3.2.0,M11.1.0",
            "no_proxy": "",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=0o077,
        start_new_session=True,
        encoding="utf-8",
        timeout=RUN_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
