"""`coterie kafka-consumer-groups` compared with kafka-consumer-groups.sh.

Both commands must print the same text for the same groups, on both servers, but for the
columns that Coterie adds at the end of a row.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.waiting import eventually

from .conftest import Command
from .consumer_groups import PROTOCOLS, consuming, make_empty_group
from .kafka import CommandOutput, GroupCommand

pytestmark = pytest.mark.slow

VERB = "kafka-consumer-groups"
OFFSETS = (("--describe",), ("--describe", "--offsets", "--verbose"))
WITH_ADDITIONS = (
    ("--describe", "--members"),
    ("--describe", "--members", "--verbose"),
    ("--describe", "--state"),
    ("--describe", "--state", "--verbose"),
)


class Both:
    """A runner of kafka-consumer-groups.sh and Coterie's command."""

    def __init__(self, tool: GroupCommand, bootstrap: str, coterie: Command) -> None:
        self._tool, self._bootstrap, self._coterie = tool, bootstrap, coterie

    def apache(self, *words: str) -> CommandOutput:
        return self._tool.run("--bootstrap-server", self._bootstrap, *words)

    def ours(self, *words: str, exit_code: int = 0) -> CommandOutput:
        return self._coterie(VERB, *words, exit_code=exit_code)

    def agree(self, *words: str) -> str:
        """Return the stdout of both, which must be equal."""
        theirs, ours = self.apache(*words), self.ours(*words)
        assert ours.stdout == theirs.stdout, (ours, theirs)
        return ours.stdout

    def agree_in_any_order(self, *words: str) -> str:
        """Return our stdout; Apache's tool prints plans in the order of a hash map."""
        theirs, ours = self.apache(*words).stdout, self.ours(*words).stdout
        assert sorted(ours.splitlines()) == sorted(theirs.splitlines()), (ours, theirs)
        return ours

    def agree_on_rows(self, *words: str) -> None:
        """Check that each line begins with that of Apache's tool."""
        theirs, ours = self.apache(*words).stdout, self.ours(*words).stdout
        for line, full in zip(theirs.splitlines(), ours.splitlines(), strict=True):
            assert full.startswith(line.rstrip()), (ours, theirs)


@pytest.fixture
def both(apache: GroupCommand, bootstrap: str, coterie: Command) -> Both:
    return Both(apache, bootstrap, coterie)


@pytest.mark.fact("C-41a", "C-41b", "C-42", "C-43a", "C-43c", "C-44a", "C-44b", "C-46a")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_descriptions_of_a_live_group_are_equal(
    both: Both, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        for words in OFFSETS:
            assert group in both.agree(*words, "--group", group)
        for more in WITH_ADDITIONS:
            both.agree_on_rows(*more, "--group", group)


@pytest.mark.fact("A-71", "A-73a", "A-73b", "A-74a", "C-51a", "C-51b")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_descriptions_of_an_empty_group_are_equal(
    both: Both, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    for words in OFFSETS:
        both.agree(*words, "--group", group)
    for more in WITH_ADDITIONS:
        both.agree_on_rows(*more, "--group", group)
    notice = f"Consumer group '{group}' has no active members."
    assert notice in both.apache("--describe", "--group", group).stderr
    assert notice in both.ours("--describe", "--group", group).stderr


@pytest.mark.fact("C-47b")
@pytest.mark.parametrize(
    "words",
    [
        ("--list",),
        ("--list", "--state"),
        ("--list", "--type"),
        ("--list", "--state", "Empty", "--type", "consumer"),
    ],
)
def test_lists_of_groups_are_equal(
    both: Both, bootstrap: str, group: str, topic: str, words: tuple[str, ...]
) -> None:
    """Compare in any order, and retry when another test changed groups in between."""
    make_empty_group(bootstrap, group, topic, "consumer")

    def same() -> bool:
        theirs, ours = both.apache(*words).stdout, both.ours(*words).stdout
        return sorted(ours.splitlines()) == sorted(theirs.splitlines()) and (
            group in ours
        )

    eventually(same, expected="two lists that are the same")


SCENARIOS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "4"),
    ("--to-offset", "99"),
    ("--shift-by", "-2"),
    ("--shift-by", "50"),
    ("--to-datetime", "2020-01-01T00:00:00.000"),
    ("--by-duration", "P1D"),
)


@pytest.mark.fact("C-60a", "C-60e", "C-62", "C-64a", "C-64b")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=" ".join)
def test_plans_of_a_reset_are_equal(
    both: Both, bootstrap: str, group: str, topic: str, scenario: tuple[str, ...]
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    reset = ("--reset-offsets", "--group", group, *scenario, "--dry-run")
    assert topic in both.agree_in_any_order(*reset, "--all-topics")
    both.agree(*reset, "--topic", f"{topic}:1")
    both.agree_in_any_order(*reset, "--all-topics", "--export")


@pytest.mark.fact("C-63")
def test_each_tool_imports_the_export_of_the_other(
    both: Both, bootstrap: str, group: str, topic: str, tmp_path: Path
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    reset = ("--reset-offsets", "--group", group)
    file = tmp_path / "offsets.csv"
    exported = both.apache(*reset, "--all-topics", "--to-earliest", "--export")
    file.write_text(exported.stdout)
    both.agree_in_any_order(*reset, "--from-file", str(file), "--dry-run")
    both.ours(*reset, "--from-file", str(file), "--execute")
    described = both.agree("--describe", "--group", group)
    assert described.split() != []
    exported = both.ours(*reset, "--all-topics", "--to-latest", "--export")
    file.write_text(exported.stdout)
    both.agree_in_any_order(*reset, "--from-file", str(file), "--dry-run")


@pytest.mark.fact("C-65b", "D-43a")
def test_deletions_of_offsets_and_groups_are_equal(
    both: Both, bootstrap: str, group: str, topic: str
) -> None:
    """Use a separate group for each tool; the outputs differ in its name."""
    outputs = []
    for who, tool in (("a", both.apache), ("b", both.ours)):
        mine = f"{group}-{who}"
        make_empty_group(bootstrap, mine, topic, "classic")
        one = tool("--delete-offsets", "--group", mine, "--topic", f"{topic}:0")
        two = tool("--delete", "--group", mine)
        outputs.append((one.stdout + two.stdout).replace(mine, "G"))
    assert outputs[0] == outputs[1]
    assert "successful" in outputs[1]


@pytest.mark.fact("C-61", "D-40")
def test_an_error_that_exits_0_in_apaches_tool_exits_1(
    both: Both, bootstrap: str, group: str, topic: str
) -> None:
    with consuming(bootstrap, group, topic, "classic"):
        reset = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
        for words in (
            (*reset, "--execute"),
            ("--delete", "--group", group),
            ("--describe", "--group", f"{group}-nobody"),
        ):
            assert both.apache(*words).exit_code == 0
            ours = both.ours(*words, exit_code=1)
            assert "Error" in ours.stdout + ours.stderr
