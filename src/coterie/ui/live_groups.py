"""The groups of a cluster, measured for all open pages together, and what changed.

While at least one page is open, all groups are polled every few seconds as the exporter
polls them (`operations.exporter.poll`), once however many pages are open. A page first
gets a snapshot, then the differences. A page that does not read its messages gets a new
snapshot instead of those it missed.

A measurement that fails leaves the last one in place: pages show its age.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec

from coterie import client
from coterie import operations as ops
from coterie.errors import ClientError, CoterieError
from coterie.operations import exporter
from coterie.types import GroupId
from coterie.ui.rebalances import Rebalances
from coterie.ui.rows import Row, changed_fields, group_details, group_row

_LOGGER = logging.getLogger(__name__)

PAGES_MAX: Final = 50
"""The pages that are open at the same time."""
HISTORY_MAX: Final = 150
"""The measurements of a group's lag that are kept: five minutes at an interval of 2 s.
"""
QUEUE_MAX: Final = 16
"""The messages that wait for a page, before it gets a snapshot instead."""
_KEEP_ALIVE_S: Final = 10.0
_SHARE_MAX: Final = 2
"""A measurement is followed by a pause of this many times its duration, if that is
longer than the interval: a large cluster is measured less often."""


class TooManyPages(CoterieError):
    """No further page can be opened."""


class _Page:
    """The messages that wait for one page. None stands for a snapshot to be made."""

    def __init__(self) -> None:
        self.messages: deque[bytes | None] = deque([None])
        self.has_messages = asyncio.Event()
        self.has_messages.set()
        self.is_closed = False

    def put(self, message: bytes) -> None:
        if len(self.messages) >= QUEUE_MAX:
            self.messages.clear()
            self.messages.append(None)
        elif self.messages != deque([None]):  # the snapshot will contain it
            self.messages.append(message)
        self.has_messages.set()


class LiveGroups:
    """The state of a cluster's groups, for pages of one event loop."""

    def __init__(
        self,
        admin: client.AdminClient,
        rebalances: Rebalances,
        interval_s: float,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._admin = admin
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._rebalances = rebalances
        self._polls = exporter.Poller(
            admin,
            exporter.PollOptions(
                selection=ops.Selection(),
                topics=exporter.TopicFilter(),
                interval_ms=round(interval_s * 1000),
            ),
            now_ms,
        )
        self._rows: dict[GroupId, Row] = {}
        self._groups: dict[GroupId, exporter.PolledGroup] = {}
        self._history: dict[GroupId, deque[int | None]] = {}
        self._samples = 0
        self._period_ms = round(interval_s * 1000)
        self._measured_ms: int | None = None
        self._error: str | None = None
        self._notes: list[str] = []
        self._cluster: Row = {}
        self._pages: set[_Page] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether the cluster is measured."""
        return self._task is not None and not self._task.done()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yield the messages for a new page, as JSON, until `close`.

        Raises TooManyPages.
        """
        if len(self._pages) >= PAGES_MAX or self._is_closed:
            raise TooManyPages(f"{PAGES_MAX} pages are open already: close one")
        page = _Page()
        self._pages.add(page)
        if not self.is_running:
            self._task = asyncio.create_task(self._run())
        try:
            while not page.is_closed:
                try:
                    async with asyncio.timeout(_KEEP_ALIVE_S):
                        await page.has_messages.wait()
                except TimeoutError:
                    yield self._encode({"kind": "alive"})
                    continue
                page.has_messages.clear()
                while page.messages:
                    # The snapshot is made only now: it contains what came meanwhile.
                    message = page.messages.popleft()
                    yield self._snapshot() if message is None else message
        finally:
            self._pages.discard(page)
            if not self._pages and self._task is not None:
                # The next page starts a new task, even before this one has ended.
                self._task.cancel()
                self._task = None

    def measure_now(self) -> None:
        """Start the next measurement at once, as after a change."""
        self._wake.set()

    def details(self, group_id: GroupId) -> Row | None:
        """Return row, details and history of a group; None when there is none."""
        row, group = self._rows.get(group_id), self._groups.get(group_id)
        if row is None or group is None:
            return None
        history = list(self._history.get(group_id, ()))
        details = group_details(group, self._measured_ms or 0)
        return {**row, **details, "history": history}

    async def close(self) -> None:
        """End the messages of every page, and the measurements."""
        self._is_closed = True
        for page in self._pages:
            page.is_closed = True
            page.messages.clear()
            page.has_messages.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause_s = self._interval_s
            started = time.monotonic()
            try:
                await self.measure()
                took_s = time.monotonic() - started
                pause_s = max(pause_s, took_s * _SHARE_MAX)
                self._period_ms = round((took_s + pause_s) * 1000)
            except CoterieError as error:
                self._fail(str(error))
            except Exception:
                _LOGGER.exception("a measurement failed")
                self._fail("an internal error, see the log of coterie")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def measure(self) -> None:
        """Measure all groups, and send the differences to the pages. Raises
        CoterieError."""
        is_first = not self._cluster
        if is_first:
            cluster = await self._admin.brokers.describe()
            self._cluster = {
                "id": cluster.cluster_id,
                "nodes": [str(node) for node in cluster.nodes],
            }
        poll = await self._polls.poll()
        groups, rows = self._known_groups(poll)
        before_ms = self._measured_ms
        if before_ms is not None:
            self._rebalances.observe(
                _descriptions(self._groups),
                _descriptions(groups),
                (before_ms, poll.measured_ms),
            )
        changed = [
            changed_fields(self._rows[group_id], row) if group_id in self._rows else row
            for group_id, row in rows.items()
        ]
        gone = [each for each in self._rows if each not in rows]
        self._rows, self._groups = rows, groups
        self._measured_ms, self._error = poll.measured_ms, None
        silent = poll.failed["node"]
        self._notes = [f"brokers that list no groups now: {silent}"] if silent else []
        if poll.may_hide_topics:
            self._notes.append(ops.LEFT_OUT)
        self._samples += 1
        self._keep_history(gone)
        self._send(
            {
                "kind": "delta",
                "changed": [each for each in changed if each],
                "gone": gone,
                "rebalances": self._rebalances.changes(),
                "cluster": self._cluster if is_first else None,
            }
        )

    def _known_groups(
        self, poll: exporter.Poll
    ) -> tuple[dict[GroupId, exporter.PolledGroup], dict[GroupId, Row]]:
        """Return the groups of a poll, with the last values of those whose broker could
        not be reached."""
        groups: dict[GroupId, exporter.PolledGroup] = {}
        rows: dict[GroupId, Row] = {}
        for group in poll.groups:
            group_id, error = group.listing.group_id, group.lag.error
            if isinstance(error, ClientError) and group_id in self._rows:
                groups[group_id] = self._groups[group_id]
                rows[group_id] = {**self._rows[group_id], "error": str(error)}
            else:
                groups[group_id] = group
                rows[group_id] = group_row(group, poll.measured_ms)
        if poll.failed["node"]:
            error_text = "a broker did not list its groups; these values are old"
            for group_id in self._rows.keys() - rows.keys():
                groups[group_id] = self._groups[group_id]
                rows[group_id] = {**self._rows[group_id], "error": error_text}
        return groups, rows

    def _keep_history(self, gone: list[GroupId]) -> None:
        for group_id in gone:
            self._history.pop(group_id, None)
        for group_id, row in self._rows.items():
            history = self._history.get(group_id)
            if history is None:
                history = self._history[group_id] = deque(maxlen=HISTORY_MAX)
            history.append(row["lag"])

    def _fail(self, error: str) -> None:
        self._error = error
        self._send({"kind": "failed"})

    def _send(self, message: Row) -> None:
        encoded = self._encode(message)
        for page in self._pages:
            page.put(encoded)

    def _snapshot(self) -> bytes:
        histories = {
            group_id: list(history)
            for group_id, history in self._history.items()
            if len(set(history)) > 1
        }
        return self._encode(
            {
                "kind": "snapshot",
                "cluster": self._cluster,
                "history_max": HISTORY_MAX,
                "groups": list(self._rows.values()),
                "histories": histories,
                "rebalances": self._rebalances.latest(),
            }
        )

    def _encode(self, message: Row) -> bytes:
        envelope: dict[str, Any] = {
            "now_ms": self._now_ms(),
            "measured_ms": self._measured_ms,
            "samples": self._samples,
            "period_ms": self._period_ms,
            "error": self._error,
            "notes": self._notes,
        }
        return msgspec.json.encode(message | envelope)


def _descriptions(groups: dict[GroupId, exporter.PolledGroup]) -> dict[GroupId, Any]:
    return {
        group_id: group.lag.description
        for group_id, group in groups.items()
        if group.lag.description is not None
    }
