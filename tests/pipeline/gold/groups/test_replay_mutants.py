"""Mutants of the replay: the tests against the truth detect each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from coterie.pipeline.gold.groups import classic, consumer, record, replay
from coterie.pipeline.gold.groups.ownership import Ownership
from coterie.pipeline.gold.groups.rebalances import Rebalances
from coterie.pipeline.gold.groups.sessions import Sessions
from tests.pipeline.gold.groups import test_replay
from tests.pipeline.gold.groups.generated_log import GeneratedLog, replayed_groups


def _nothing(*_: Any, **__: Any) -> None: ...


def _revokes_nothing(*_: Any) -> list[Any]:
    return []


def _ends_at_the_target(group: Any) -> bool:
    return bool(group.assignment_epoch == group.epoch)


def _without_last(listed: Any, names: Any) -> Any:
    return record.partitions_of(listed, names)[:-1]


pytestmark = pytest.mark.slow


class Mutant(NamedTuple):
    """A table, the wrong implementation, and the test that detects it."""

    table: str
    target: Any
    name: str | int
    replacement: Any
    detected_by: Callable[[Path, Any], None]


_GROUPS: Final = test_replay.test_groups_and_members_match_the_coordinator
_OWNERS: Final = test_replay.test_ownership_matches_the_generated_truth
_SESSIONS: Final = test_replay.test_sessions_match_the_generated_truth
_REBALANCES: Final = test_replay.test_rebalances_match_the_generated_truth

MUTANTS: Final = (
    Mutant("current_groups", replay, "_state", lambda group: "Stable", _GROUPS),
    Mutant("current_groups", consumer._TOMBSTONES, 3, _nothing, _GROUPS),
    Mutant("current_members", consumer._TOMBSTONES, 5, _nothing, _GROUPS),
    Mutant("current_members", consumer, "partitions_of", _without_last, _GROUPS),
    Mutant(
        "partition_ownership_history", Ownership, "revoke", _revokes_nothing, _OWNERS
    ),
    Mutant("partition_ownership_history", Ownership, "_index_topic", _nothing, _OWNERS),
    Mutant("partition_ownership_history", consumer, "AWAY", -9, _OWNERS),
    Mutant("member_sessions", consumer, "_mark_replaced", _nothing, _SESSIONS),
    Mutant("member_sessions", Sessions, "end", _nothing, _SESSIONS),
    Mutant(
        "member_sessions",
        replay,
        "_downgrade_tombstones",
        lambda records: (),
        _SESSIONS,
    ),
    Mutant("member_sessions", Sessions, "is_restart", _nothing, _REBALANCES),
    Mutant(
        "rebalance_timeline",
        consumer,
        "_is_reconciled",
        _ends_at_the_target,
        _REBALANCES,
    ),
    Mutant("rebalance_timeline", Rebalances, "add_assigned", _nothing, _REBALANCES),
    Mutant(
        "rebalance_timeline",
        classic,
        "_cause_with_same_members",
        lambda *_: "unknown",
        _REBALANCES,
    ),
    Mutant("rebalance_timeline", replay, "mark_storms", _nothing, _REBALANCES),
)


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=[f"{each.table}-{each.name}" for each in MUTANTS]
)
def test_the_truth_tests_detect_a_wrong_replay(
    mutant: Mutant, logs: Sequence[GeneratedLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Require a failed test on one of the two logs, as not every log has every case."""
    if isinstance(mutant.name, int):
        monkeypatch.setitem(mutant.target, mutant.name, mutant.replacement)
    else:
        monkeypatch.setattr(mutant.target, mutant.name, mutant.replacement)
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError)):
        _run_test(logs, mutant)


def _run_test(logs: Sequence[GeneratedLog], mutant: Mutant) -> None:
    for log in logs:
        mutant.detected_by(log.folder, replayed_groups(log.records, log.names))
