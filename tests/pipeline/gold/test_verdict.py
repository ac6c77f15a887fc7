"""Burrow's rules as a table of cases, some of which have another Coterie verdict."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.pipeline.gold.settings import BurrowRules
from coterie.pipeline.gold.verdict import (
    Commit,
    Evaluation,
    PartitionState,
    Verdict,
    burrow_verdict,
    evaluate,
    group_verdict,
)

OK, WARN, STOP = Verdict.OK, Verdict.WARN, Verdict.STOP
STALL, REWIND = Verdict.STALL, Verdict.REWIND
TOO_NEW = Verdict.TOO_NEW


def _rules(allowed_lag: int = 0, minimum_complete: float = 0.0) -> BurrowRules:
    return BurrowRules(allowed_lag=allowed_lag, minimum_complete=minimum_complete)


class Case(NamedTuple):
    """A window of commits, one a second from second 1 on, as (offset, lag)."""

    about: str
    commits: list[tuple[int, int | None]]
    ends: list[int]
    burrow: Verdict
    after_s: int = 1
    """Time of the evaluation after the last commit."""
    rules: BurrowRules = BurrowRules()
    lag: int | None = None
    """Default: the last end minus the last commit."""
    ours: Verdict | None = None
    """Our verdict, where it differs from Burrow's."""


FILLED = [(n, 5) for n in range(10)]
CASES = [
    Case("0: no commit", [], [5], OK, lag=5, ours=TOO_NEW),
    Case(
        "0: half of the window",
        [(1, 4)] * 5,
        [5],
        OK,
        rules=_rules(0, 0.6),
        ours=TOO_NEW,
    ),
    Case("0: no lag yet", [(1, 4), (5, 0)], [5], OK, rules=_rules(0, 0.6)),
    Case(
        "0: enough of the window",
        [(1, 4)] * 6,
        [5],
        STALL,
        rules=_rules(0, 0.6),
    ),
    Case("1: no lag", [(1, 4), (5, 0)], [5], OK, after_s=1000),
    Case("1: beyond the end", [(1, 4), (9, 0)], [5], OK, lag=0),
    Case("1: lag that is allowed", [(1, 4)] * 9, [5], OK, rules=_rules(4)),
    Case("1: and one more", [(1, 4)] * 9, [6], STALL, rules=_rules(3)),
    Case("2: silent for as long as it spans", [(1, 4), (2, 3)], [9], OK),
    Case("2: and a second longer", [(1, 4), (2, 3)], [9], STOP, after_s=2),
    Case("2: it was at the end just now", [(1, 4), (5, 0)], [5, 9], OK, after_s=99),
    Case("2: its ends are forgotten", [(1, 4), (5, 0)], [8, 9], STOP, after_s=99),
    Case("2: a single commit spans nothing", [(1, 4)], [9], STOP, ours=TOO_NEW),
    Case("2: stopped wins over rewind", [(9, 1), (2, 8)], [19], STOP, after_s=9),
    Case("2: beyond its end", [(9, 1)], [19], STOP, ours=TOO_NEW),
    Case("3: went back", [(5, 1), (3, 3)], [6], REWIND),
    Case("3: went back, never behind before", [(5, 0), (3, 3)], [6], REWIND),
    Case("3: made up for", [(5, 1), (3, 3), (5, 1)], [6], OK),
    Case("3: made up for and more", [(5, 1), (3, 3), (7, 1)], [9], OK),
    Case(
        "3: only the first drop counts",
        [(5, 3), (3, 3), (6, 3), (1, 8)],
        [9],
        WARN,
    ),
    Case("4: the same offset", [(5, 1), (5, 2), (5, 4)], [9], STALL),
    Case("4: it was at the end once", [(5, 0), (5, 2), (5, 4)], [9], OK),
    Case("4: unknown lags are passed over", [(5, None), (5, 2)], [9], STALL),
    Case("4: all unknown", [(5, None), (5, None)], [9], STALL),
    Case("5: never nearer", [(5, 1), (6, 1), (7, 4)], [11], WARN),
    Case("5: nearer once", [(5, 3), (6, 2), (7, 4)], [11], OK),
    Case("5: it was at the end once", [(5, 0), (6, 1), (7, 4)], [11], OK),
    Case("5: an unknown one between", [(5, 1), (6, None), (7, 2)], [9], WARN),
    Case(
        "5: allowed lag in between",
        [(5, 5), (6, 2)],
        [9],
        OK,
        rules=_rules(2),
    ),
    Case("6: it gets nearer", [(5, 9), (8, 6), (12, 2)], [14], OK),
    # Coterie's verdict differs from Burrow's.
    Case("quiet: once, behind", [(5, 3)], [8], STOP, after_s=900, ours=OK),
    Case("quiet: it grew", [(5, 3)], [9], STOP, after_s=900, ours=TOO_NEW),
    Case("quiet: it grew twice", [(5, 3), (6, 2)], [9], STOP, after_s=900),
    Case("quiet: got nearer", [(5, 9), (8, 6)], [14], STOP, after_s=900, ours=OK),
    Case("quiet: was stalled", [(5, 3)] * 3, [8], STOP, after_s=900, ours=STALL),
    Case("quiet: went back", [(7, 1), (5, 3)], [8], STOP, after_s=900, ours=REWIND),
    Case("quiet: lag unknown", [(5, None)], [8], STOP, after_s=900, ours=TOO_NEW),
]


def _window(case: Case) -> list[Commit]:
    return [
        Commit(offset, second * 1000, lag)
        for second, (offset, lag) in enumerate(case.commits, 1)
    ]


def _lag(case: Case) -> int:
    if case.lag is not None:
        return case.lag
    return case.ends[-1] - case.commits[-1][0]


def _now_ms(case: Case) -> int:
    return (len(case.commits) + case.after_s) * 1000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_burrow_verdicts_are_reproduced(case: Case) -> None:
    evaluation = burrow_verdict(
        _window(case), _lag(case), case.ends, _now_ms(case), case.rules
    )
    assert evaluation.verdict is case.burrow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_verdicts_differ_from_burrow_only_in_the_marked_cases(case: Case) -> None:
    state = PartitionState(_now_ms(case), has_commit=True)
    evaluation = evaluate(_window(case), _lag(case), case.ends, state, case.rules)
    assert evaluation.verdict is (case.ours or case.burrow)


def test_time_since_the_last_commit_is_measured_in_whole_seconds() -> None:
    window = [Commit(1, 0, 5), Commit(2, 1_000, 5)]
    at_2_999 = burrow_verdict(window, 9, [11], 2_999, BurrowRules())
    assert at_2_999.verdict is not Verdict.STOP
    assert burrow_verdict(window, 9, [11], 3_000, BurrowRules()).verdict is Verdict.STOP


def _evaluated(
    state: PartitionState, lag: int | None = 4, *, is_reset: bool = False
) -> Evaluation:
    window = [Commit(5, 0, 4), Commit(3, 1_000, 6, is_reset), Commit(4, 2_000, 5)]
    return evaluate(window, lag, [8], state, BurrowRules())


@pytest.mark.parametrize(
    ("state", "lag", "verdict"),
    [
        (PartitionState(2_000, has_commit=False), None, Verdict.NO_COMMIT),
        (PartitionState(2_000, has_commit=None), None, Verdict.UNKNOWN),
        (PartitionState(2_000, has_commit=True), None, Verdict.OK),
        (
            PartitionState(2_000, has_commit=True, messages_lost=1),
            4,
            Verdict.LOSING_DATA,
        ),
        (PartitionState(2_000, has_commit=True, is_owned=False), 4, Verdict.NO_OWNER),
        (PartitionState(2_000, has_commit=True, is_owned=False), 0, Verdict.OK),
        (PartitionState(2_000, has_commit=True, is_owned=True), 4, Verdict.REWIND),
        (PartitionState(2_000, has_commit=True, is_owned=None), 4, Verdict.REWIND),
    ],
)
def test_coterie_verdicts_use_rules_that_burrow_lacks(
    state: PartitionState, lag: int | None, verdict: Verdict
) -> None:
    assert _evaluated(state, lag).verdict is verdict


def test_a_rewind_by_an_operator_is_a_reset() -> None:
    state = PartitionState(2_000, has_commit=True, is_owned=True)
    assert _evaluated(state, is_reset=True).verdict is Verdict.RESET
    assert _evaluated(state).verdict is Verdict.REWIND


def test_the_verdict_of_a_group_is_that_of_its_worst_partition() -> None:
    for verdict in (Verdict.STOP, Verdict.STALL, Verdict.REWIND):
        assert group_verdict([Verdict.OK, verdict, Verdict.WARN]) is Verdict.ERR
    assert group_verdict([]) is Verdict.OK
    assert group_verdict([Verdict.WARN, Verdict.NO_COMMIT]) is Verdict.WARN
    assert group_verdict([Verdict.WARN, Verdict.LOSING_DATA]) is Verdict.ERR
    assert group_verdict([Verdict.TOO_NEW, Verdict.UNKNOWN]) is Verdict.OK
