"""Burrow's rules as a table of cases, and where ours say something else."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coterie.pipeline.gold.verdict import (
    Around,
    Commit,
    Judgement,
    Rules,
    Verdict,
    burrow,
    judge,
    worst,
)

OK, WARN, STOP = Verdict.OK, Verdict.WARN, Verdict.STOP
STALL, REWIND = Verdict.STALL, Verdict.REWIND


class Case(NamedTuple):
    """Commits a second apart from second 1 on, as (offset, lag)."""

    about: str
    commits: list[tuple[int, int | None]]
    ends: list[int]
    says: Verdict
    after_s: int = 1
    """How long after the last commit it is judged."""
    rules: Rules = Rules()
    lag: int | None = None
    """Otherwise the last end less the last commit."""
    ours: Verdict | None = None
    """What we say, where that is not what Burrow says."""


FILLED = [(n, 5) for n in range(10)]
CASES = [
    Case("0: no commit", [], [5], OK, lag=5),
    Case("0: half of the window", [(1, 4)] * 5, [5], OK, rules=Rules(10, 0, 0, 0.6)),
    Case(
        "0: enough of the window", [(1, 4)] * 6, [5], STALL, rules=Rules(10, 0, 0, 0.6)
    ),
    Case("1: no lag", [(1, 4), (5, 0)], [5], OK, after_s=1000),
    Case("1: beyond the end", [(1, 4), (9, 0)], [5], OK, lag=0),
    Case("1: lag that is allowed", [(1, 4)] * 9, [5], OK, rules=Rules(10, 0, 4)),
    Case("1: and one more", [(1, 4)] * 9, [6], STALL, rules=Rules(10, 0, 3)),
    Case("2: silent for as long as it spans", [(1, 4), (2, 3)], [9], OK),
    Case("2: and a second longer", [(1, 4), (2, 3)], [9], STOP, after_s=2),
    Case("2: it was at the end just now", [(1, 4), (5, 0)], [5, 9], OK, after_s=99),
    Case("2: its ends are forgotten", [(1, 4), (5, 0)], [8, 9], STOP, after_s=99),
    Case("2: a single commit spans nothing", [(1, 4)], [9], STOP),
    Case("2: stopped wins over rewind", [(9, 1), (2, 8)], [19], STOP, after_s=9),
    Case("2: a drop is stopped too, beyond its end", [(9, 1)], [19], STOP),
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
    Case("5: allowed lag in between", [(5, 5), (6, 2)], [9], OK, rules=Rules(10, 0, 2)),
    Case("6: it gets nearer", [(5, 9), (8, 6), (12, 2)], [14], OK),
    # Where we differ.
    Case("quiet: once, behind", [(5, 3)], [8], STOP, after_s=900, ours=OK),
    Case("quiet: it grew", [(5, 3)], [9], STOP, after_s=900),
    Case("quiet: got nearer", [(5, 9), (8, 6)], [14], STOP, after_s=900, ours=OK),
    Case("quiet: was stalled", [(5, 3)] * 3, [8], STOP, after_s=900, ours=STALL),
    Case("quiet: went back", [(7, 1), (5, 3)], [8], STOP, after_s=900, ours=REWIND),
    Case("quiet: lag unknown", [(5, None)], [8], STOP, after_s=900),
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
def test_burrow_says(case: Case) -> None:
    found = burrow(_window(case), _lag(case), case.ends, _now_ms(case), case.rules)
    assert found.verdict is case.says


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_we_say_the_same_but_when_nothing_was_written(case: Case) -> None:
    around = Around(_now_ms(case), has_commit=True)
    found = judge(_window(case), _lag(case), case.ends, around, case.rules)
    assert found.verdict is (case.ours or case.says)


def test_the_clock_goes_by_whole_seconds() -> None:
    window = [Commit(1, 0, 5), Commit(2, 1_000, 5)]
    at_2_999 = burrow(window, 9, [11], 2_999, Rules())
    assert at_2_999.verdict is not Verdict.STOP
    assert burrow(window, 9, [11], 3_000, Rules()).verdict is Verdict.STOP


def _judged(
    around: Around, lag: int | None = 4, *, is_reset: bool = False
) -> Judgement:
    window = [Commit(5, 0, 4), Commit(3, 1_000, 6, is_reset), Commit(4, 2_000, 5)]
    return judge(window, lag, [8], around, Rules())


@pytest.mark.parametrize(
    ("around", "lag", "verdict"),
    [
        (Around(2_000, has_commit=False), None, Verdict.NO_COMMIT),
        (Around(2_000, has_commit=True), None, Verdict.OK),
        (Around(2_000, has_commit=True, messages_lost=1), 4, Verdict.LOSING_DATA),
        (Around(2_000, has_commit=True, is_owned=False), 4, Verdict.NO_OWNER),
        (Around(2_000, has_commit=True, is_owned=False), 0, Verdict.OK),
        (Around(2_000, has_commit=True, is_owned=True), 4, Verdict.REWIND),
        (Around(2_000, has_commit=True, is_owned=None), 4, Verdict.REWIND),
    ],
)
def test_what_burrow_does_not_see(
    around: Around, lag: int | None, verdict: Verdict
) -> None:
    assert _judged(around, lag).verdict is verdict


def test_a_rewind_by_an_operator_is_a_reset() -> None:
    around = Around(2_000, has_commit=True, is_owned=True)
    assert _judged(around, is_reset=True).verdict is Verdict.RESET
    assert _judged(around).verdict is Verdict.REWIND


def test_a_group_is_as_bad_as_its_worst_partition() -> None:
    for verdict in (Verdict.STOP, Verdict.STALL, Verdict.REWIND):
        assert worst([Verdict.OK, verdict, Verdict.WARN]) is Verdict.ERR
    assert worst([]) is Verdict.OK
    assert worst([Verdict.WARN, Verdict.NO_COMMIT]) is Verdict.WARN
    assert worst([Verdict.WARN, Verdict.LOSING_DATA]) is Verdict.ERR
