"""Tests for the runner of the pages' code blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_run import PageRun, blocks, commands, matches


@pytest.fixture
def run(tmp_path: Path) -> PageRun:
    return PageRun(tmp_path)


def test_blocks_have_language_title_line_and_mark() -> None:
    page = (
        'a\n\n```python title="t.py"\nx\n```\n<!-- not run: big -->\n```bash\ny\n```\n'
    )
    first, second = blocks(page)
    assert (first.language, first.title, first.text, first.line) == (
        *("python", "t.py", "x\n"),
        3,
    )
    assert (second.language, second.mark, second.reason) == ("bash", "not run", "big")


def test_commands_have_output_and_exit_code() -> None:
    text = "$ one \\\n>   more\nout\n$ two\nfailed\n[exit code 2]\n"
    first, second = commands(text)
    assert first == ("one more", "out\n", 0)
    assert (second.line, second.output.strip(), second.code) == ("two", "failed", 2)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a  b\n", "a b\n\n", True),
        ("a ... c", "a b c", True),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c", "abc", False),
    ],
)
def test_dots_stand_for_any_text(expected: str, actual: str, *, same: bool) -> None:
    assert matches(expected, actual) is same


def test_python_blocks_share_names_and_output_is_compared(run: PageRun) -> None:
    page = "```python\nx = 1\n```\n```python\nprint(x)\n```\n"
    with run:
        run.run(page + '```text title="output"\n1\n```\n')
        with pytest.raises(AssertionError):
            run.run(page + '```text title="output"\n2\n```\n')


def test_an_output_that_differs_fails_with_the_line(run: PageRun) -> None:
    with run, pytest.raises(AssertionError) as failure:
        run.run("text\n```console\n$ echo a\nb\n```\n")
    assert failure.value.__notes__ == ["in the block at line 2 of the page"]


def test_titled_blocks_are_files(run: PageRun) -> None:
    with run:
        run.run(
            '```properties title="a.properties"\nx=1\n```\n'
            "```console\n$ cat a.properties\nx=1\n$ export A=7\n$ echo $A\n7\n```\n"
        )


def test_a_failing_test_of_a_page_fails(run: PageRun) -> None:
    with run, pytest.raises(AssertionError):
        run.run("```python\ndef test_it():\n    assert False\n```\n")


def test_a_language_that_cannot_be_run_needs_a_reason(run: PageRun) -> None:
    with run:
        run.run("<!-- not run: no compiler -->\n```java\nx\n```\n")
        with pytest.raises(AssertionError, match="no way to run java"):
            run.run("```java\nx\n```\n")
