"""Coterie without POSIX: its tests in a process in which its code sees Windows.

tests/support/windows/sitecustomize.py lists what differs. Left out are tests with the
mark `posix`, which test what Windows does not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.wire.codec import COMPILED

WINDOWS = Path(__file__).parent / "support" / "windows"
TIMEOUT_S = 590

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILED, reason="compiled code has no frames to recognise"),
    pytest.mark.skipif(sys.platform != "linux", reason="it imitates Windows on Linux"),
]


def run(*arguments: str) -> str:
    """Run Python where Coterie's code sees Windows; return its output."""
    own = ("PYTEST_", "COV_", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**environment, "PYTHONPATH": str(WINDOWS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    return done.stdout


@pytest.mark.parametrize(
    ("paths", "marks"),
    [
        (["testing"], "not slow"),
        (["cli", "--ignore=tests/cli/pipeline"], "not slow"),
        (["broker/log"], "not slow"),
        # Processes, which see Windows too, and what stops them.
        (
            [
                "cli/groups/test_export.py",
                "cli/test_main.py",
                "cli/test_serve_control.py",
                "cli/test_ui.py",
                "cli/test_users.py",
                "gateway/test_node.py",
            ],
            "slow",
        ),
    ],
    ids=["test kit", "command line", "data directory", "processes"],
)
def test_the_tests_pass_without_posix(paths: list[str], marks: str) -> None:
    arguments = [each if each[0] == "-" else f"tests/{each}" for each in paths]
    output = run(
        *("-m", "pytest", "-q", "-m", f"{marks} and not posix", *arguments),
        *("-p", "no:cacheprovider", "--hypothesis-profile=quick", "-n", "0"),
    )
    assert " passed" in output


def test_every_module_can_be_imported() -> None:
    code = """
import importlib, pkgutil, coterie
names = [each.name for each in pkgutil.walk_packages(coterie.__path__, "coterie.")]
for name in names:
    if name != "coterie.cli.__main__":
        importlib.import_module(name)
print(len(names))
"""
    assert int(run("-c", code)) > 500


@pytest.mark.parametrize(
    "statement",
    [
        "import fcntl",
        "from os import pwritev",
        "import os; os.fork",
        "import os; os.open('.', os.O_RDONLY)",
        "import os; os.open('file', os.O_WRONLY | os.O_CREAT)",
        "import signal; signal.SIGHUP",
        "from socket import AF_UNIX",
        "import sys; assert sys.platform == 'linux'",
        "import time; time.clock_gettime",
        "import uvloop",
        "open('a:b', 'w')",
        "import os; file = open('file', 'w'); os.remove('file')",
        "import asyncio; asyncio.new_event_loop().add_signal_handler(2, id)",
    ],
)
def test_the_imitation_refuses_what_windows_refuses(
    statement: str, tmp_path: Path
) -> None:
    own = str(Path(coterie.__file__).with_name("imitated.py"))
    code = f"""
import os
os.chdir({str(tmp_path)!r})
exec(compile({statement!r}, "elsewhere.py", "exec"), dict())
for name in os.listdir():
    os.remove(name)
try:
    exec(compile({statement!r}, {own!r}, "exec"), dict())
except (AttributeError, ImportError, AssertionError, OSError, NotImplementedError):
    print("refused")
"""
    assert run("-W", "ignore", "-c", code) == "refused\n"
