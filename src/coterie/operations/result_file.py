"""What became of each item of a plan: a file beside it, so that a plan which was broken
off can be taken up again. JSON lines: a head, then one line an item each time it is
tried; the last one counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from coterie.errors import SettingError
from coterie.operations.apply import ItemResult, Verdict
from coterie.operations.documents import (
    append_durably,
    decode_document,
    encode_line,
    utc_text,
)
from coterie.operations.plan import Action, Plan, PlanItem
from coterie.types import GroupId

SCHEMA: Final = "coterie.plan-results"
SCHEMA_VERSION: Final = 1
SUFFIX: Final = ".results.jsonl"


@dataclass(frozen=True, slots=True)
class ResultHead:
    """The first line."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    plan_id: str


@dataclass(frozen=True, slots=True)
class ResultLine:
    """What became of an item."""

    item_id: str
    action: Action
    group_id: GroupId
    verdict: Verdict
    reasons: tuple[str, ...]
    at: str
    """UTC."""
    snapshot_id: str
    """Where its old offsets are kept, if anything was written."""


class ResultFile:
    """The results of one plan. Raises SettingError when it is another plan's."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self._plan_id = plan.plan_id
        self._is_new = not path.exists()
        lines = () if self._is_new else self._read()
        self.last = {line.item_id: line for line in lines}
        """The last result of each item that was tried."""

    def is_done(self, item_id: str) -> bool:
        """Whether an item is done, so that it is skipped."""
        return item_id in self.last and self.last[item_id].verdict.is_good

    def result_of(self, item: PlanItem) -> ItemResult:
        """The last result of an item that was tried."""
        line = self.last[item.item_id]
        return ItemResult(item, line.verdict, line.reasons)

    def begin(self) -> None:
        """Make the file if it is new, so that it is known early whether it can be.
        Raises SettingError."""
        if self._is_new:
            self._append(encode_line(ResultHead(self._plan_id)))
            self._is_new = False

    def add(self, result: ItemResult, at_ms: int, snapshot_id: str) -> None:
        """Note a result; it is on the disk when this returns."""
        item = result.item
        line = ResultLine(
            item.item_id,
            item.action,
            item.group_id,
            result.verdict,
            result.reasons,
            utc_text(at_ms),
            snapshot_id,
        )
        self.begin()
        self._append(encode_line(line))
        self.last[item.item_id] = line

    def _append(self, data: bytes) -> None:
        try:
            append_durably(self.path, data, is_new=self._is_new)
        except OSError as error:
            raise SettingError(f"{self.path}: {error.strerror}") from error

    def _read(self) -> tuple[ResultLine, ...]:
        try:
            head, *lines = self.path.read_bytes().split(b"\n")
            plan_id = decode_document(head, ResultHead, SCHEMA, SCHEMA_VERSION).plan_id
            if plan_id != self._plan_id:
                raise SettingError(
                    f"these are the results of plan {plan_id}, not of {self._plan_id}:"
                    " name another file with --results"
                )
            return tuple(
                msgspec.json.decode(line, type=ResultLine) for line in lines[:-1]
            )
        except OSError as error:
            raise SettingError(f"{self.path}: {error.strerror}") from error
        except (SettingError, msgspec.DecodeError) as error:
            raise SettingError(f"{self.path}: {error}") from error
