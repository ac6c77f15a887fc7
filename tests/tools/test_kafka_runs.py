"""Recorded runs on Kafka are parsed, merged, and compared with the latest run."""

from __future__ import annotations

import pytest

from tools.kafka_runs import Run, faults, merged, read_runs, runs_of, write_runs

RUN = Run("4.3.1", ("interop/test_a.py::test_one",))
OUTCOMES = {
    "A-01": {
        "tests/interop/test_a.py::test_one[kafka]": "passed",
        "tests/interop/test_a.py::test_one[coterie]": "passed",
    }
}


def test_written_runs_are_parsed_back() -> None:
    runs = {"B-01": RUN, "A-01": Run("4.3.1", ("a.py::one", "b.py::two"))}
    text = write_runs(runs)
    assert text.splitlines()[1] == "A-01\t4.3.1\ta.py::one b.py::two"
    assert read_runs(text) == runs


@pytest.mark.parametrize("parameters", ["[kafka]", "[kafka-7]", "[7-kafka]"])
def test_only_tests_with_the_parameter_kafka_ran_on_kafka(parameters: str) -> None:
    tests = {
        f"tests/interop/test_a.py::test_one{parameters}": "passed",
        "tests/interop/test_a.py::test_other[coterie]": "passed",
        "tests/interop/test_a.py::test_third[not_kafka]": "passed",
    }
    assert runs_of({"A-01": tests}, "4.3.1", all_on_kafka=False) == {"A-01": RUN}


def test_a_foreign_broker_is_kafka_without_a_parameter() -> None:
    outcomes = {"A-01": {"tests/interop/test_a.py::test_one": "passed"}}
    assert runs_of(outcomes, "4.3.1", all_on_kafka=True) == {"A-01": RUN}
    assert runs_of(outcomes, "4.3.1", all_on_kafka=False) == {}


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_test_that_did_not_pass_on_kafka_is_no_run(outcome: str) -> None:
    tests = {"tests/interop/test_a.py::test_one[kafka]": outcome}
    assert runs_of({"A-01": tests}, "4.3.1", all_on_kafka=False) == {}


def test_a_failed_test_refutes_the_passed_ones_of_its_fact() -> None:
    tests = {"tests/a.py::one[kafka]": "passed", "tests/a.py::two[kafka]": "failed"}
    assert runs_of({"A-01": tests}, "4.3.1", all_on_kafka=False) == {}


def test_merged_runs_have_the_tests_of_both() -> None:
    both = merged({"A-01": RUN}, {"A-01": Run("4.3.1", ("b.py::b",)), "A-02": RUN})
    assert both == {"A-01": Run("4.3.1", ("b.py::b", *RUN.tests)), "A-02": RUN}


def test_a_recorded_run_that_was_repeated_has_no_fault() -> None:
    now = merged(runs_of(OUTCOMES, "4.3.1", all_on_kafka=False), {"A-02": RUN})
    assert list(faults({"A-01": RUN}, now, {"A-01", "A-02"})) == []


def test_a_recorded_test_that_did_not_pass_again_is_named() -> None:
    renamed = {"A-01": Run("4.3.1", ("interop/test_a.py::test_new_name",))}
    [fault] = faults({"A-01": RUN}, renamed, {"A-01"})
    assert fault.startswith("A-01: interop/test_a.py::test_one did not run")
    assert list(faults({"A-01": RUN}, {}, {"A-01"})) == [fault]


def test_a_recorded_fact_that_was_dropped_is_named() -> None:
    assert list(faults({"A-01": RUN}, {"A-01": RUN}, set())) == [
        "A-01: docs/facts.tsv has no such row"
    ]
