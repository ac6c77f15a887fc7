"""The examples in Java, Go and Node run against `coterie serve --control`.

A test is skipped without the language's tools, or without a registry to install from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.environment import REAL_HOME

EXAMPLES = Path(__file__).parents[2] / "examples"
DOWNLOAD_S = 180
RUN_S = 180
UNREACHABLE = re.compile(
    r"could not transfer|could not be resolved|cannot access|unknown host|"
    r"dial tcp|no such host|i/o timeout|enotfound|eai_again|econnrefused|etimedout",
    re.IGNORECASE,
)


class Example:
    """A copy of one example."""

    def __init__(self, language: str, directory: Path) -> None:
        self.directory = directory / language
        shutil.copytree(
            EXAMPLES / language,
            self.directory,
            ignore=shutil.ignore_patterns("node_modules", "target"),
        )
        command = directory / "coterie"
        python = f"{sys.executable} -m coterie.cli.main"
        command.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        command.chmod(0o755)
        # Maven, Go and npm keep what they downloaded in the user's home directory.
        home = os.environ.get(REAL_HOME, os.environ["HOME"])
        self._environment = {**os.environ, "HOME": home, "COTERIE": str(command)}

    def run(self, arguments: Sequence[str], timeout_s: float) -> str:
        """Run a command and return its output. Skip the test without a registry."""
        if shutil.which(arguments[0]) is None:
            pytest.skip(f"{arguments[0]} is not installed")
        try:
            done = subprocess.run(
                arguments,
                cwd=self.directory,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"{arguments} took over {timeout_s} s: {error.output!r}")
        output = done.stdout + done.stderr
        if done.returncode and UNREACHABLE.search(output):
            pytest.skip(f"no packages can be downloaded: {output[-500:]}")
        assert done.returncode == 0, output
        return output


@pytest.mark.slow
@pytest.mark.timeout(DOWNLOAD_S + RUN_S)
def test_the_java_example_passes(tmp_path: Path) -> None:
    example = Example("java", tmp_path)
    output = example.run(["mvn", "-B", "test"], RUN_S)
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0" in output


@pytest.mark.slow
@pytest.mark.timeout(DOWNLOAD_S + RUN_S)
def test_the_go_example_passes(tmp_path: Path) -> None:
    example = Example("go", tmp_path)
    example.run(["go", "mod", "download"], DOWNLOAD_S)
    output = example.run(["go", "test", "-count=1", "-v", "./..."], RUN_S)
    assert output.count("--- PASS") == 2


@pytest.mark.slow
@pytest.mark.timeout(DOWNLOAD_S + RUN_S)
def test_the_node_example_passes(tmp_path: Path) -> None:
    example = Example("node", tmp_path)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    example.run([*install, "--prefer-offline"], DOWNLOAD_S)
    output = example.run(["node", "--test"], RUN_S)
    assert re.search(r"pass 2\b", output), output
