"""A cluster of values that the command can look at and change, and its golden texts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coterie.cli import connect
from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeAdmin

from .running import Ran, run_here

_GOLDEN = Path(__file__).parent / "golden"


@dataclass
class FakeCluster(FakeAdmin):
    """What was changed, beside what is there."""

    deleted: list[GroupId] = field(default_factory=list)
    altered: dict[GroupId, Mapping[TopicPartition, CommittedOffset]] = field(
        default_factory=dict
    )
    deleted_offsets: list[TopicPartition] = field(default_factory=list)
    alter_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    delete_errors: dict[TopicPartition, CoterieError] = field(default_factory=dict)
    broken: CoterieError | None = None
    """What every session ends with at once."""

    async def __aenter__(self) -> FakeCluster:
        if self.broken is not None:
            raise self.broken
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append(("close", None))

    async def delete_groups(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, None]:
        wanted = list(group_ids)
        errors = {each: error for each in wanted if (error := self._keeps(each))}
        gone = [each for each in wanted if each not in errors]
        self.deleted += gone
        return Results(dict.fromkeys(gone), errors)

    def _keeps(self, group_id: GroupId) -> CoterieError | None:
        if group_id not in self.groups:
            return self._group_error(group_id)
        if self.groups[group_id].state.is_active:
            return ApiError(ErrorCode.NON_EMPTY_GROUP, "our words")
        return None

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        if group_id in self.alter_errors:
            raise self.alter_errors[group_id]
        self.altered[group_id] = offsets
        return Results(dict.fromkeys(offsets))

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        if (error := self._group_error(group_id)) is not None:
            raise error
        errors = {
            each: self.delete_errors[each]
            for each in partitions
            if each in self.delete_errors
        }
        gone = [each for each in partitions if each not in errors]
        self.deleted_offsets += gone
        return Results(dict.fromkeys(gone), errors)


Typed = Callable[[str], Ran]


def typed_at(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs command lines against this cluster."""

    def open_admin(_: argparse.Namespace) -> FakeCluster:
        return cluster

    monkeypatch.setattr(connect, "open_admin", open_admin)
    return lambda line: run_here("--bootstrap-server", "x:1", *line.split())


def is_golden(name: str, text: str) -> bool:
    """Whether a text is golden/NAME.txt, which COTERIE_GOLDEN=write makes anew: read
    the difference before you commit it."""
    path = _GOLDEN / f"{name}.txt"
    if os.environ.get("COTERIE_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()
    return True
