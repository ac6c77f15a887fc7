"""Tests of commands, edits and the bounded process of a suite's run."""

from __future__ import annotations

import os
import signal
import ssl
import sys
from pathlib import Path

import pytest

from tests.ecosystem.__main__ import main
from tests.ecosystem.runs import go_command, pytest_arguments, run_bounded
from tests.ecosystem.sources import Unavailable, copy_source, fill
from tests.ecosystem.suites import SUITES, Checkout, Edit, Suite

VALUES = {"address": "localhost:1234", "port": "1234"}
CLONE = Checkout("https://example.org/them/suite", "v1.2.0")


def suite(*edits: Edit) -> Suite:
    """Return a suite whose tests the user has cloned."""
    return Suite(CLONE, tests=("tests",), within_s=60, edits=edits)


def test_fill_leaves_other_braces() -> None:
    assert (
        fill("{address} {port} {other} {}", VALUES) == "localhost:1234 1234 {other} {}"
    )


def test_a_suite_is_copied_and_edited_and_the_original_is_not(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / "a_test.go").write_text('dial("localhost:9092", 19092)\n')
    (clone / "a_test.go").chmod(0o444)
    edited = suite(Edit("*_test.go", r"\b9092\b", "{port}"))
    source = copy_source(edited, tmp_path / "run", clone, VALUES)
    assert (source / "a_test.go").read_text() == 'dial("localhost:1234", 19092)\n'
    assert (clone / "a_test.go").read_text() == 'dial("localhost:9092", 19092)\n'
    assert not (source / ".git").exists()


def test_an_edit_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "a.py").write_text("port = 9093\n")
    edited = suite(Edit("*.py", "9092", "{port}"))
    with pytest.raises(Unavailable, match=r"no file .* has '9092'"):
        copy_source(edited, tmp_path / "run", tmp_path / "clone", VALUES)


def test_a_suite_that_uses_tls_gets_certificates(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    with_tls = Suite(CLONE, tests=("tests",), within_s=60, certificates="certs")
    source = copy_source(with_tls, tmp_path / "run", tmp_path / "clone", VALUES)
    certs = source / "certs"
    context = ssl.create_default_context(cafile=certs / "ca" / "rootCA.pem")
    context.load_cert_chain(certs / "cert.pem", certs / "key.pem")
    assert len(context.get_ca_certs()) == 1


def test_a_suite_without_its_checkout_says_how_to_clone_it(tmp_path: Path) -> None:
    with pytest.raises(
        Unavailable, match=r"git clone --branch v1\.2\.0 https://example"
    ):
        copy_source(suite(), tmp_path / "run", None, VALUES)


def test_tests_that_cannot_run_are_left_out() -> None:
    go = go_command(suite(), ["kgo.TestA", "sasl.TestB/one"])
    assert "-skip=^TestA$|^TestB$/^one$" in go
    python = pytest_arguments(suite(), Path("junit.xml"), ["t/a.py::test_b*"], VALUES)
    assert "--deselect=t/a.py::test_b" in python


@pytest.mark.slow
@pytest.mark.posix
def test_a_run_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    child = "import time; print('child', flush=True); time.sleep(600)"
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    )
    said: list[str] = []
    log = tmp_path / "log"
    done = run_bounded(
        [sys.executable, "-c", parent], tmp_path, os.environ, log, 2.0, said.append
    )
    assert done == -signal.SIGKILL
    assert said[-1] == "ended after 2 s"


def test_list_names_each_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build/ecosystem", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SUITES)
