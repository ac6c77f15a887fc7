"""A small cluster for tests of plans, and a snapshot in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.operations.apply import apply_items
from coterie.operations.plan_files import Action, ItemResult, PlanItem
from coterie.operations.plans import GroupPlan, items_of, plan_offsets
from coterie.operations.resets import Scenario
from coterie.operations.snapshots import (
    Snapshot,
    SnapshotGroup,
    SnapshotHead,
    SnapshotWriter,
)
from coterie.types import GroupId, TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup
from tests.operations.fake_admin import FakeLog

Answer = TypeVar("Answer")

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOW_MS = 1_795_255_200_000


def small_cluster() -> ClusterModel:
    """Return a cluster with groups g and h without members, and one group with
    members."""
    return ClusterModel(
        known_groups={
            "g": ModelGroup({A0: CommittedOffset(5, 1, "m"), B0: CommittedOffset(7)}),
            "h": ModelGroup({A0: CommittedOffset(9)}),
            "live": ModelGroup({A0: CommittedOffset(1)}, members=("m1", "m2")),
        },
        known_logs={
            A0: FakeLog.of(2, 10, step_ms=1),
            A1: FakeLog.of(0, 4, step_ms=1),
            B0: FakeLog.of(0, 7, step_ms=1),
        },
    )


@dataclass
class MemorySnapshot(SnapshotWriter):
    """A snapshot in memory."""

    groups: list[SnapshotGroup] = field(default_factory=list)

    def add(self, groups: Iterable[SnapshotGroup]) -> None:
        self.groups += groups

    @property
    def content(self) -> Snapshot:
        return Snapshot(SnapshotHead("s", "", "model"), tuple(self.groups))


def run(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(coroutine)


def planned_reset(
    model: ClusterModel, scenarios: Mapping[GroupId, Scenario]
) -> tuple[GroupPlan, ...]:
    return run(plan_offsets(model, Action.RESET, scenarios))


def reset_items(
    model: ClusterModel, scenarios: Mapping[GroupId, Scenario]
) -> tuple[PlanItem, ...]:
    return items_of(planned_reset(model, scenarios))


def applied(
    model: ClusterModel,
    items: Sequence[PlanItem],
    snapshot: MemorySnapshot | None = None,
    *,
    force: bool = False,
) -> tuple[ItemResult, ...]:
    return run(apply_items(model, items, snapshot or MemorySnapshot(), force=force))
