"""Only failed tests are repeated, in the run that they belong to."""

from __future__ import annotations

from tests.interop.__main__ import EXCHANGES, TESTS, Run

IN_TESTS = "tests/interop/test_sasl.py::test_a[kafka]"
IN_EXCHANGES = "tests/interop/exchanges/test_offsets.py::test_b[kafka-0]"
ELSEWHERE = "tests/wire/test_codec.py::test_c"


def test_a_repeated_run_has_only_its_own_failed_tests() -> None:
    failed = [IN_TESTS, IN_EXCHANGES, ELSEWHERE]
    interop = Run((TESTS,), ("-n", "0"), apart=EXCHANGES)
    assert interop.of_failed(failed) == interop._replace(tests=(IN_TESTS,))
    exchanges = Run((EXCHANGES,), ())
    assert exchanges.of_failed(failed).tests == (IN_EXCHANGES,)


def test_a_run_without_failed_tests_is_empty() -> None:
    assert not Run((EXCHANGES,), ()).of_failed([IN_TESTS]).tests
