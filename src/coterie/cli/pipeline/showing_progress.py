"""How far a run is, for people at a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self


class Shown:
    """Progress at a terminal; nothing elsewhere. Its lines go away again."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def reading(self, done: int, of: int) -> None:
        """See `jobs.run.Progress`."""
        self._show("reading records", done, of)

    def building(self, table: str, done: int, of: int) -> None:
        """See `jobs.run.Progress`."""
        self._show(f"building {table}", done, of)

    def _show(self, what: str, done: int, of: int) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task, description=what, completed=done, total=max(of, 1)
            )
