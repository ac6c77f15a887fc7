"""The groups that a command which writes is about."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.groups.selecting import read_selection, said, selection_failures
from coterie.cli.output.values import Failure
from coterie.cli.running import Run
from coterie.operations.select import select_groups
from coterie.types import GroupId


@dataclass(frozen=True, slots=True)
class Meant:
    """Which groups were meant."""

    ids: tuple[GroupId, ...]
    failures: tuple[Failure, ...]
    """Of groups and nodes that could not be judged."""
    said: str
    """How many they are, and their first names."""


async def meant_groups(run: Run) -> Meant:
    """The groups of the selection; all of them only when --all says so.

    Raises SettingError when no group was chosen.
    """
    selection = read_selection(run.options, must_choose=True)
    selected = await select_groups(run.admin, selection, progress=run.progress)
    return Meant(selected.ids, selection_failures(selected), said(selected))
