"""A fake cluster that the command reads and changes, and golden outputs."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coterie.cli import connect
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.results import Progress, Results
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeAdmin

from .in_process import CommandResult, run_in_process

_GOLDEN = Path(__file__).parent / "golden"


@dataclass
class FakeCluster(FakeAdmin):
    """A fake admin client that records changes."""

    deleted: list[GroupId] = field(default_factory=list)
    altered: dict[GroupId, Mapping[TopicPartition, CommittedOffset]] = field(
        default_factory=dict
    )
    deleted_offsets: list[TopicPartition] = field(default_factory=list)
    alter_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    delete_errors: dict[TopicPartition, CoterieError] = field(default_factory=dict)
    broken: CoterieError | None = None
    """The error that every connection fails with."""

    async def __aenter__(self) -> FakeCluster:
        if self.broken is not None:
            raise self.broken
        return self

    async def __aexit__(self, *_: object) -> None:
        self.record("close")

    async def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        requested = list(group_ids)
        errors = {
            each: error for each in requested if (error := self._delete_error(each))
        }
        deleted = [each for each in requested if each not in errors]
        self.deleted += deleted
        return Results(dict.fromkeys(deleted), errors)

    def _delete_error(self, group_id: GroupId) -> CoterieError | None:
        if group_id not in self.known_groups:
            return self.group_error(group_id)
        if self.known_groups[group_id].state.is_active:
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
        if (error := self.group_error(group_id)) is not None:
            raise error
        errors = {
            each: self.delete_errors[each]
            for each in partitions
            if each in self.delete_errors
        }
        deleted = [each for each in partitions if each not in errors]
        self.deleted_offsets += deleted
        return Results(dict.fromkeys(deleted), errors)


RunLine = Callable[[str], CommandResult]


def runner_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> RunLine:
    """Return a function that runs command lines against a cluster."""

    def open_admin(_: argparse.Namespace) -> FakeCluster:
        return cluster

    monkeypatch.setattr(connect, "open_admin", open_admin)
    server = ("--bootstrap-server", "x:1")
    return lambda line: run_in_process(*server, *shlex.split(line))


def is_golden(name: str, text: str) -> bool:
    """Compare a text with golden/NAME.txt. COTERIE_TEST_GOLDEN=write rewrites the file;
    read the difference before you commit it."""
    path = _GOLDEN / f"{name}.txt"
    if os.environ.get("COTERIE_TEST_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()
    return True
