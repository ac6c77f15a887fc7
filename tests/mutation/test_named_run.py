"""Runs of named mutants: a weak test, a missing mutant and a broken test are seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mutation import __main__ as command
from mutation.marks import files_to_collect, group_by_fact
from mutation.named import NamedMutant
from mutation.named_run import (
    KILLED,
    NO_MUTANT,
    NO_TEST,
    SURVIVED,
    UNUSABLE,
    Preparation,
    RowResult,
    draw_rows,
    prepare,
    run_rows,
)
from mutation.sandbox import ROOT, pool_of_sandboxes

FILE = "broker/coordinator/consumer/members.py"
CHECK = "check_member_epoch"
ACCEPTED = "(member.epoch, JOIN_EPOCH)"


def mutant_of(fact: str, old: str, new: str) -> NamedMutant:
    return NamedMutant((fact,), FILE, old, new, CHECK, "E07.toml")


@pytest.mark.slow
def test_a_sample_depends_on_its_seed_alone() -> None:
    assert draw_rows(20, 7) == draw_rows(20, 7) != draw_rows(20, 8)
    assert len(draw_rows(10_000, 7)) > 500
    differs = (ROOT / "docs" / "deviations.tsv").read_text(encoding="utf-8")
    assert not set(draw_rows(10_000, 7)) & {
        line.partition("\t")[0] for line in differs.splitlines()
    }


@pytest.mark.slow
def test_the_files_of_a_fact_are_those_that_mention_it() -> None:
    files = files_to_collect(["E7-31"])
    assert "tests/broker/coordinator/consumer/test_members_epochs.py" in files
    assert len(files) < 10


def test_tests_of_processes_run_only_for_facts_without_another_test() -> None:
    client, unit = "tests/real_clients/test_a.py::test_a", "tests/wire/test_b.py::test"
    marks = {client: ["A-01", "A-02"], unit: ["A-02"]}
    assert group_by_fact(marks) == {"A-01": [client], "A-02": [unit]}


def test_a_row_without_a_test_or_a_mutant_is_not_shown() -> None:
    prepared = Preparation({"E7-31": ["t"]}, frozenset(), {"t": 0.1})
    results = list(run_rows(["E7-31", "E7-32"], [], prepared, None))  # type: ignore[arg-type]
    assert [(each.fact, each.status) for each in results] == [
        ("E7-31", NO_MUTANT),
        ("E7-32", NO_TEST),
    ]


def test_a_row_whose_tests_fail_already_is_not_run() -> None:
    prepared = Preparation({"E7-31": ["t"]}, frozenset({"t"}), {"t": 0.1})
    mutant = mutant_of("E7-31", ACCEPTED, "()")
    (result,) = run_rows(["E7-31"], [mutant], prepared, None)  # type: ignore[arg-type]
    assert str(result) == "E7-31    its tests fail without the mutant: t"


@pytest.mark.slow
def test_mutants_are_killed_by_the_tests_of_their_rows() -> None:
    mutants = [
        mutant_of("E7-33", ACCEPTED, "(member.epoch,)"),
        # The tests of E7-31 send every epoch but 0: they cannot see this mutant.
        mutant_of("E7-31", ACCEPTED, "(member.epoch, 0 or JOIN_EPOCH)"),
        mutant_of("E7-30", "if epoch > member.epoch:", "if epoch > member.epoch"),
        mutant_of("H-06a", ACCEPTED, "[][0]"),
    ]
    facts = [mutant.facts[0] for mutant in mutants]
    before = (ROOT / "src/coterie" / FILE).read_text(encoding="utf-8")
    with pool_of_sandboxes(1) as pool:
        prepared = prepare(facts, pool, 1)
        assert not prepared.failed
        results = {each.fact: each for each in run_rows(facts, mutants, prepared, pool)}
    assert {fact: each.status for fact, each in results.items()} == {
        "E7-33": KILLED,
        "E7-31": SURVIVED,
        "E7-30": UNUSABLE,
        "H-06a": KILLED,
    }
    assert "can_always_rejoin" in results["E7-33"].detail
    assert (ROOT / "src/coterie" / FILE).read_text(encoding="utf-8") == before


def test_the_command_fails_unless_all_rows_are_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        RowResult("A-01", KILLED, "tests/a", 0.1),
        RowResult("A-02", SURVIVED, "2 tests pass", 0.2),
    ]
    monkeypatch.setattr(command, "_run", lambda *_: results)
    target = tmp_path / "results.json"
    assert command.main(["--facts", "A-01,A-02", "--json", str(target)]) == 1
    assert capsys.readouterr().out == (
        "A-02     survived: 2 tests pass\n2 rows: 1 killed, 1 survived\n"
    )
    rows = json.loads(target.read_text())["rows"]
    assert [row["status"] for row in rows] == [KILLED, SURVIVED]
    del results[1]
    assert command.main(["--facts", "A-01"]) == 0


@pytest.mark.slow
def test_the_command_needs_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 2
    assert "no rows are chosen" in capsys.readouterr().err
    assert command.main(["--check"]) == 0
    assert capsys.readouterr().out.endswith(" 0 problems\n")
