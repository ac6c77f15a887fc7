"""The replay broken on purpose: what holds it against truth has to see that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from coterie.pipeline.gold.groups import classic, consumer, fold, record
from coterie.pipeline.gold.groups.ownership import Ownership
from coterie.pipeline.gold.groups.rebalances import Rebalances
from coterie.pipeline.gold.groups.sessions import Sessions
from tests.pipeline.gold.groups import test_truth
from tests.pipeline.gold.groups.replaying import Made, replayed_groups


def _nothing(*_: Any, **__: Any) -> None: ...


def _keeps_all(*_: Any) -> list[Any]:
    return []


def _ends_at_the_target(group: Any) -> bool:
    return bool(group.assignment_epoch == group.epoch)


def _revoked_at_once(listed: Any, names: Any) -> Any:
    parts = record.parts_of(listed, names)
    return parts[:-1]


pytestmark = pytest.mark.slow


class Mutant(NamedTuple):
    """A table, what is wrong with it, and who is to see that."""

    table: str
    where: Any
    name: str | int
    wrong: Any
    seen_by: Callable[[Path, Any], None]


_GROUPS: Final = test_truth.test_groups_and_members_are_as_the_coordinator_has_them
_OWNERS: Final = test_truth.test_owners_are_those_that_truth_has
_SESSIONS: Final = test_truth.test_sessions_are_those_that_truth_has
_REBALANCES: Final = test_truth.test_rebalances_are_those_that_truth_has

MUTANTS: Final = (
    Mutant("current_groups", fold, "_state", lambda group: "Stable", _GROUPS),
    Mutant("current_groups", consumer._TOMBSTONES, 3, _nothing, _GROUPS),
    Mutant("current_members", consumer._TOMBSTONES, 5, _nothing, _GROUPS),
    Mutant("current_members", consumer, "parts_of", _revoked_at_once, _GROUPS),
    Mutant("partition_ownership_history", Ownership, "release", _keeps_all, _OWNERS),
    Mutant("partition_ownership_history", Ownership, "_learn", _nothing, _OWNERS),
    Mutant("partition_ownership_history", consumer, "AWAY", -9, _OWNERS),
    Mutant("member_sessions", consumer, "_replaces", _nothing, _SESSIONS),
    Mutant("member_sessions", Sessions, "end", _nothing, _SESSIONS),
    Mutant("member_sessions", fold, "_downgrades", lambda records: (), _SESSIONS),
    Mutant("member_sessions", Sessions, "is_restart", _nothing, _REBALANCES),
    Mutant(
        "rebalance_timeline", consumer, "_has_settled", _ends_at_the_target, _REBALANCES
    ),
    Mutant("rebalance_timeline", Rebalances, "gained", _nothing, _REBALANCES),
    Mutant(
        "rebalance_timeline",
        classic,
        "_cause_of_the_same",
        lambda *_: "unknown",
        _REBALANCES,
    ),
    Mutant("rebalance_timeline", fold, "mark_storms", _nothing, _REBALANCES),
)


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=[f"{each.table}-{each.name}" for each in MUTANTS]
)
def test_truth_sees_that_a_table_is_wrong(
    mutant: Mutant, logs: Sequence[Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one log or the other: not every log has all there is."""
    if isinstance(mutant.name, int):
        monkeypatch.setitem(mutant.where, mutant.name, mutant.wrong)
    else:
        monkeypatch.setattr(mutant.where, mutant.name, mutant.wrong)
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError)):
        _look_at_all(logs, mutant)


def _look_at_all(logs: Sequence[Made], mutant: Mutant) -> None:
    for log in logs:
        mutant.seen_by(log.folder, replayed_groups(log.records, log.names))
