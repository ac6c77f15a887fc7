"""Our drop-in beside Apache's own kafka-consumer-groups.sh, on both servers.

What both print of the same groups, word for word and blank for blank.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.waiting import eventually

from .conftest import Command
from .groups import PROTOCOLS, consuming, make_empty_group
from .kafka import GroupCommand, Ran

pytestmark = pytest.mark.slow

VERB = "kafka-consumer-groups"
LOOKS = (
    ("--describe",),
    ("--describe", "--offsets", "--verbose"),
    ("--describe", "--members"),
    ("--describe", "--members", "--verbose"),
    ("--describe", "--state"),
    ("--describe", "--state", "--verbose"),
)


class Both:
    """Runs Apache's tool and ours with the same words."""

    def __init__(self, tool: GroupCommand, bootstrap: str, coterie: Command) -> None:
        self._tool, self._bootstrap, self._coterie = tool, bootstrap, coterie

    def apache(self, *words: str) -> Ran:
        return self._tool.run("--bootstrap-server", self._bootstrap, *words)

    def ours(self, *words: str, exit_code: int = 0) -> Ran:
        return self._coterie(VERB, "--strict", *words, exit_code=exit_code)

    def agree(self, *words: str, exit_code: int = 0) -> str:
        """What both say on stdout, which must be the same."""
        theirs, ours = self.apache(*words), self.ours(*words, exit_code=exit_code)
        assert ours.stdout == theirs.stdout, (ours, theirs)
        return ours.stdout


@pytest.fixture
def both(apache: GroupCommand, bootstrap: str, coterie: Command) -> Both:
    return Both(apache, bootstrap, coterie)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_described_alike(
    both: Both, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        for words in LOOKS:
            assert group in both.agree(*words, "--group", group)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_group_is_described_alike(
    both: Both, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    for words in LOOKS:
        both.agree(*words, "--group", group)
    notice = f"Consumer group '{group}' has no active members."
    assert notice in both.apache("--describe", "--group", group).stderr
    assert notice in both.ours("--describe", "--group", group).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--list",),
        ("--list", "--state"),
        ("--list", "--type"),
        ("--list", "--state", "Empty", "--type", "consumer"),
    ],
)
def test_groups_are_listed_alike(
    both: Both, bootstrap: str, group: str, topic: str, words: tuple[str, ...]
) -> None:
    """In any order, and once no other test made or deleted a group in between."""
    make_empty_group(bootstrap, group, topic, "consumer")

    def alike() -> bool:
        theirs, ours = both.apache(*words).stdout, both.ours(*words).stdout
        return sorted(ours.splitlines()) == sorted(theirs.splitlines()) and (
            group in ours
        )

    eventually(alike, wanted="two lists that are the same")


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


@pytest.mark.parametrize("scenario", SCENARIOS, ids=" ".join)
def test_a_reset_is_planned_alike(
    both: Both, bootstrap: str, group: str, topic: str, scenario: tuple[str, ...]
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    reset = ("--reset-offsets", "--group", group, *scenario, "--dry-run")
    assert topic in both.agree(*reset, "--all-topics")
    both.agree(*reset, "--topic", f"{topic}:1")
    both.agree(*reset, "--all-topics", "--export")


def test_what_one_exports_the_other_imports(
    both: Both, bootstrap: str, group: str, topic: str, tmp_path: Path
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    reset = ("--reset-offsets", "--group", group)
    file = tmp_path / "offsets.csv"
    exported = both.apache(*reset, "--all-topics", "--to-earliest", "--export")
    file.write_text(exported.stdout)
    both.agree(*reset, "--from-file", str(file), "--dry-run")
    both.ours(*reset, "--from-file", str(file), "--execute")
    described = both.agree("--describe", "--group", group)
    assert described.split() != []
    exported = both.ours(*reset, "--all-topics", "--to-latest", "--export")
    file.write_text(exported.stdout)
    both.agree(*reset, "--from-file", str(file), "--dry-run")


def test_offsets_and_groups_are_deleted_alike(
    both: Both, bootstrap: str, group: str, topic: str
) -> None:
    """Each deletes from a group of its own; what they say differs by the name only."""
    said = []
    for who, tool in (("a", both.apache), ("b", both.ours)):
        mine = f"{group}-{who}"
        make_empty_group(bootstrap, mine, topic, "classic")
        one = tool("--delete-offsets", "--group", mine, "--topic", f"{topic}:0")
        two = tool("--delete", "--group", mine)
        said.append((one.stdout + two.stdout).replace(mine, "G"))
    assert said[0] == said[1]
    assert "successful" in said[1]


def test_where_apache_says_no_and_ends_with_0_we_end_with_1(
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
