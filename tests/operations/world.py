"""A small cluster for tests of plans, and a place that keeps old offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coterie.client.admin.offset_values import CommittedOffset
from coterie.operations.apply import ItemResult, apply_items
from coterie.operations.plan import Action, PlanItem
from coterie.operations.planning import Planned, items_of, plan_offsets
from coterie.operations.reset import Scenario
from coterie.operations.snapshots import GroupBefore, Snapshot, SnapshotHead
from coterie.types import GroupId, TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelGroup, ModelLog

Answer = TypeVar("Answer")

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOW_MS = 1_795_255_200_000


def small_cluster() -> ClusterModel:
    """Groups g and h without members, and one that is live."""
    return ClusterModel(
        groups={
            "g": ModelGroup({A0: CommittedOffset(5, 1, "m"), B0: CommittedOffset(7)}),
            "h": ModelGroup({A0: CommittedOffset(9)}),
            "live": ModelGroup({A0: CommittedOffset(1)}, members=("m1", "m2")),
        },
        logs={A0: ModelLog(2, 10), A1: ModelLog(0, 4), B0: ModelLog(0, 7)},
    )


@dataclass
class MemoryKeeper:
    """Keeps groups in memory."""

    groups: list[GroupBefore] = field(default_factory=list)

    def keep(self, groups: Sequence[GroupBefore]) -> None:
        self.groups += groups

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(SnapshotHead("s", "", "model"), tuple(self.groups))


def run(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(coroutine)


def planned_reset(
    model: ClusterModel, scenarios: Mapping[GroupId, Scenario]
) -> tuple[Planned, ...]:
    return run(plan_offsets(model, Action.RESET, scenarios))


def reset_items(
    model: ClusterModel, scenarios: Mapping[GroupId, Scenario]
) -> tuple[PlanItem, ...]:
    return items_of(planned_reset(model, scenarios))


def applied(
    model: ClusterModel,
    items: Sequence[PlanItem],
    keeper: MemoryKeeper | None = None,
    *,
    force: bool = False,
) -> tuple[ItemResult, ...]:
    return run(apply_items(model, items, keeper or MemoryKeeper(), force=force))
