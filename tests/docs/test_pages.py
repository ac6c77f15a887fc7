"""The code on the pages of docs/ runs, and prints what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from coterie.cli.parser import make_parser
from coterie.cli.registry import FAMILIES, find_command
from tests.docs.clusters import shop, shop_with_trials, topics
from tests.docs.page_run import DOCS, ROOT, PageRun, blocks

RUN = ("index.md", "tutorial.md", "guides/*.md", "testing/*.md")
CLUSTER = "kafka.example:9092"
"""The address of the reader's own cluster, which a page does not start."""
CLUSTERS: Mapping[str, Callable[[str], None]] = {
    "guides/alert-on-lag.md": shop,
    "guides/find-what-lags.md": shop,
    "guides/reset-a-group.md": shop,
    "guides/ask-the-log.md": shop,
    "guides/try-a-topic.md": lambda _: None,
    "guides/clean-up.md": shop_with_trials,
    "guides/end-a-hanging-transaction.md": shop,
    "guides/use-it-from-python.md": shop,
    "guides/migrate-a-group.md": shop,
    "guides/put-a-gateway-in-front.md": shop,
}
OTHER_CLUSTER = "kafka.example:9192"
OTHER_CLUSTERS: Mapping[str, Callable[[str], None]] = {
    "guides/migrate-a-group.md": topics,
}
SETTINGS = ("--set", "group.initial.rebalance.delay.ms=0")
NOT_RUN: Mapping[str, int] = {
    "guides/end-a-hanging-transaction.md": 1,
}
"""Most blocks of a page that are not run; other pages have none."""
SHELLS = {"console", "bash", ""}
CODE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)


def names(*globs: str) -> list[str]:
    found = (path for each in globs for path in DOCS.glob(each))
    return sorted(path.relative_to(DOCS).as_posix() for path in found)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a page starts Spark
@pytest.mark.parametrize("name", names(*RUN))
def test_the_code_of_a_page_runs(name: str, tmp_path: Path) -> None:
    with PageRun(tmp_path) as run:
        for address, fill in (
            (CLUSTER, CLUSTERS.get(name)),
            (OTHER_CLUSTER, OTHER_CLUSTERS.get(name)),
        ):
            if fill is not None:
                run.serve(address, *SETTINGS)
                fill(run.addresses[address])
        run.run((DOCS / name).read_text("utf-8"))


def test_few_blocks_are_not_run() -> None:
    exempt = Counter(
        name
        for name in names(*RUN)
        for block in blocks((DOCS / name).read_text("utf-8"))
        if block.mark == "not run"
    )
    assert {
        name: exempt[name] for name in exempt if exempt[name] > NOT_RUN.get(name, 0)
    } == {}


@pytest.mark.parametrize("name", names(*RUN))
def test_blocks_that_other_tests_run_name_them(name: str) -> None:
    for block in blocks((DOCS / name).read_text("utf-8")):
        if block.mark == "run by":
            assert (ROOT / block.reason).exists(), block


def command_lines(page: str) -> list[str]:
    """Return the lines of a page's code that call `coterie`."""
    shown = [text for language, text in CODE.findall(page) if language in SHELLS]
    shown += INDENTED.findall(CODE.sub("", page))
    text = "\n".join(shown).replace("\\\n", " ")
    return re.findall(
        r"^(?: {4,})?(?:\$ )?(coterie (?!ready|gateway ready|control on|ui on)[^\n]+)",
        text,
        re.MULTILINE,
    )


@pytest.mark.parametrize("name", names("**/*.md"))
def test_every_command_on_a_page_has_known_options(name: str) -> None:
    for line in command_lines((DOCS / name).read_text("utf-8")):
        words = shlex.split(re.split(r" (?=[|>&;]|2>|\s{3})", line)[0], comments=True)[
            1:
        ]
        if re.search(r"\.\.\.|[|$…]", line) or " ".join(words) in FAMILIES:
            continue
        entry = find_command(words)
        if entry is not None and entry.parses_itself:
            continue
        output = io.StringIO()
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            code = exit_code(lambda: make_parser(entry).parse_args(words))  # noqa: B023
        assert code == 0, f"{line}: {output.getvalue()}"


def exit_code(function: Callable[[], object]) -> object:
    try:
        function()
    except SystemExit as end:
        return end.code
    return 0
