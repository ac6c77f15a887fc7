"""The exporter's HTTP service: polls at an interval, and scrapes from memory.

Polls run in a thread of their own, so that a scrape never waits for one. A poll starts
an interval after the start of the one before, or later when that took longer: polls
never overlap. A poll that fails is reported, and the next one is tried; the metrics of
the last complete one are served until it is older than `STALE_INTERVALS` intervals,
and are then left out, because nothing tells them from current ones.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics.exposition import (
    CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS,
)
from prometheus_client.openmetrics.exposition import (
    generate_latest as openmetrics_text,
)

from coterie import client
from coterie.errors import CoterieError
from coterie.http_endpoint import Body, Endpoint, Headers, Reply, json_reply
from coterie.loop_thread import LoopThread
from coterie.operations.exporter import exposition
from coterie.operations.exporter.poll import Poll, Poller, PollOptions, error_name
from coterie.operations.hidden_topics import LEFT_OUT
from coterie.types import GroupId

_LOGGER = logging.getLogger(__name__)

STALE_INTERVALS: Final = 3
"""Intervals after which a poll is too old."""
RESPONSE_TIMEOUT_S: Final = 60.0
"""The time from a connection to the end of its response."""
_REST_SHARE: Final = 10
"""The pause between polls is at least this fraction of the interval."""
_NO_METRICS: Final = exposition.Text((), b"", b"")
_PREFIX: Final = "coterie_exporter_"
_INDEX: Final = b"""<!doctype html><html lang="en"><title>coterie groups export</title>
<h1>coterie groups export</h1><ul><li><a href="metrics">/metrics</a> of the last poll
<li><a href="health">/health</a> 200, or 503 when the last successful poll is too old
</ul></html>
"""


class _Status(NamedTuple):
    """The state of the exporter after its last poll; times are monotonic (s)."""

    polls: int = 0
    failures: int = 0
    last: Poll | None = None
    """The last complete poll, without its groups."""
    group_count: int = 0
    succeeded_s: float | None = None
    succeeded_at_s: float | None = None
    """The time of the last success since 1970 (s)."""
    error: str | None = None
    """A sentence; None after a success."""
    error_name: str | None = None


class Exporter:
    """The metrics of one cluster, and the state of their polls.

    `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        style: exposition.Style,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._style = style
        self._interval_s = interval_s
        self._clock = clock
        self._text = _NO_METRICS
        self._status = _Status()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def poll(self, poller: Poller) -> bool:
        """Poll once and publish the result; return whether it succeeded."""
        status = self._status
        try:
            poll = await poller.poll()
            text = exposition.render(poll, self._style)
        except Exception as error:
            if not isinstance(error, CoterieError | OSError):
                _LOGGER.exception("a bug in a poll")
            self._status = status._replace(
                polls=status.polls + 1,
                failures=status.failures + 1,
                error=str(error) or type(error).__name__,
                error_name=error_name(error),
            )
            return False
        # `text` is assigned first: a scrape in between has the metrics of this poll and
        # the age of the one before.
        self._text = text
        self._status = _Status(
            polls=status.polls + 1,
            failures=status.failures,
            last=replace(poll, groups=(), log_starts={}, log_ends={}),
            group_count=len(poll.groups),
            succeeded_s=self._clock(),
            succeeded_at_s=time.time(),
        )
        return True

    async def poll_and_log(self, poller: Poller) -> None:
        """Poll once; log the first success, the start and the end of an outage, once
        that topics may be hidden, and named groups that are missing from now on."""
        before, was_hiding = self._status, self.may_hide_topics
        were_missing = self.missing_groups
        is_ok = await self.poll(poller)
        now = self._status
        if not is_ok and before.error is None:
            _LOGGER.warning("the poll failed: %s", now.error)
        elif is_ok and now.last and (before.error is not None or before.polls == 0):
            duration_ms = now.last.duration_ms
            _LOGGER.info("polled %d groups in %d ms", now.group_count, duration_ms)
        if self.may_hide_topics and not was_hiding:
            _LOGGER.warning(LEFT_OUT)
        for each in self.missing_groups:
            if each not in were_missing:
                _LOGGER.warning("there is no group %r", each)

    @property
    def error(self) -> str | None:
        """The error of the last poll."""
        return self._status.error

    @property
    def failed_items(self) -> int:
        """The number of items that the last complete poll could not read."""
        last = self._status.last
        return sum(last.failed.values()) if last else 0

    @property
    def missing_groups(self) -> tuple[GroupId, ...]:
        """The named groups that did not exist in the last complete poll."""
        last = self._status.last
        return last.missing if last else ()

    @property
    def may_hide_topics(self) -> bool:
        """Whether partitions may be missing for want of rights on their topics."""
        last = self._status.last
        return last is not None and last.may_hide_topics

    def is_healthy(self) -> bool:
        """Return whether the last complete poll is recent enough."""
        status = self._status
        if status.succeeded_s is None or status.last is None:
            return False
        bound_s = STALE_INTERVALS * self._interval_s + status.last.duration_ms / 1000
        return self._clock() - status.succeeded_s <= bound_s

    def body(
        self,
        *,
        openmetrics: bool = False,
        is_packed: bool = False,
        with_process: bool = True,
    ) -> Body:
        """Return all metrics in one of the formats, or without `with_process` those
        that are not about the process; `is_packed` compresses them by gzip."""
        text = self._text if self.is_healthy() else _NO_METRICS
        own = self._own_metrics(openmetrics).encode(errors="replace")
        if with_process:
            own += self._process_metrics(openmetrics)
        if is_packed:
            return text.packed(openmetrics=openmetrics, end=own)
        return text.plain(openmetrics=openmetrics, end=own)

    async def scrape(self, headers: Headers) -> Reply:
        """Answer a request of /metrics, by its Accept and Accept-Encoding headers."""
        openmetrics = "application/openmetrics-text" in headers.get("accept", "")
        kind = CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_LATEST
        extra = {"Vary": "Accept, Accept-Encoding"}
        is_packed = "gzip" in headers.get("accept-encoding", "")
        if is_packed:
            extra["Content-Encoding"] = "gzip"
        body = self.body(openmetrics=openmetrics, is_packed=is_packed)
        return Reply("200 OK", body, kind, extra)

    async def health(self, _: Headers) -> Reply:
        """Answer a request of /health."""
        status, is_ok = self._status, self.is_healthy()
        age_s = None
        if status.succeeded_s is not None:
            age_s = round(self._clock() - status.succeeded_s, 3)
        word = "ok" if is_ok else "starting" if status.polls == 0 else "stale"
        content = {
            "status": word,
            "last_success_age_s": age_s,
            "interval_s": self._interval_s,
            "polls": status.polls,
            "failures": status.failures,
            "groups": status.group_count,
            "failed_items": self.failed_items,
            "last_error": status.error,
        }
        return json_reply(content, is_ok=is_ok)

    async def index(self, _: Headers) -> Reply:
        """Answer a request of /."""
        return Reply("200 OK", _INDEX, "text/html; charset=utf-8")

    def _own_metrics(self, openmetrics: bool) -> str:
        """Return the metrics of the exporter itself."""
        status, last = self._status, self._status.last
        parts: list[str] = []

        def add(name: str, kind: str, text: str, *samples: tuple[str, float]) -> None:
            name = _PREFIX + name
            parts.append(exposition.header(name, kind, text, openmetrics=openmetrics))
            parts.extend(f"{name}{labels} {value}\n" for labels, value in samples)

        build = exposition.escape(version("coterie"))
        add("build_info", "gauge", "Version.", (f'{{version="{build}"}}', 1))
        is_up = int(status.polls > 0 and status.error is None)
        add("up", "gauge", "Whether the last poll succeeded.", ("", is_up))
        add("polls_total", "counter", "Polls.", ("", status.polls))
        add("poll_failures_total", "counter", "Failed polls.", ("", status.failures))
        if status.error_name is not None:
            labels = f'{{error="{exposition.escape(status.error_name)}"}}'
            add("last_error_info", "gauge", "Error of the last poll.", (labels, 1))
        if last is not None and status.succeeded_at_s is not None:
            add(
                "last_success_timestamp_seconds",
                "gauge",
                "Time of the last successful poll.",
                ("", round(status.succeeded_at_s, 3)),
            )
            add(
                "poll_seconds",
                "gauge",
                "Duration of the last successful poll.",
                ("", last.duration_ms / 1000),
            )
            add(
                "poll_cpu_seconds",
                "gauge",
                "CPU time of the last successful poll, without rendering.",
                ("", round(last.cpu_s, 3)),
            )
            add("groups", "gauge", "Groups of that poll.", ("", status.group_count))
            add(
                "failed_items",
                "gauge",
                "Nodes, groups and partitions that could not be read.",
                *(
                    (f'{{kind="{kind}"}}', count)
                    for kind, count in sorted(last.failed.items())
                ),
            )
        return "".join(parts)

    def _process_metrics(self, openmetrics: bool) -> bytes:
        """Return the metrics of the process; in OpenMetrics they end the text."""
        if not openmetrics:
            return generate_latest(self._process)
        text: bytes = openmetrics_text(self._process)  # type: ignore[no-untyped-call]
        return text


async def poll_forever(
    open_admin: Callable[[], client.AdminClient],
    options: PollOptions,
    exporter: Exporter,
) -> None:
    """Poll at the interval of the plan until cancelled."""
    interval_s = options.interval_ms / 1000
    loop = asyncio.get_running_loop()
    async with open_admin() as admin:
        poller = Poller(admin, options)
        while True:
            began_s = loop.time()
            await exporter.poll_and_log(poller)
            rest_s = interval_s - (loop.time() - began_s)
            await asyncio.sleep(max(rest_s, interval_s / _REST_SHARE))


async def serve(
    exporter: Exporter,
    polling: Callable[[], Awaitable[None]],
    listen: tuple[str, int],
    ready: Callable[[str], None],
) -> None:
    """Serve HTTP until cancelled, while `polling` runs in a thread of its own.

    `ready` gets the address. Raises OSError when the address is unavailable, and the
    error that `polling` ends with.
    """
    endpoint = Endpoint(
        {
            b"/metrics": exporter.scrape,
            b"/health": exporter.health,
            b"/": exporter.index,
        },
        RESPONSE_TIMEOUT_S,
    )
    host, port = listen
    port = await endpoint.start(host, port)
    ready(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    thread = LoopThread("coterie-export")

    async def run() -> None:
        await polling()

    waiting = asyncio.ensure_future(asyncio.to_thread(thread.wait, run()))
    try:
        await asyncio.shield(waiting)
    finally:
        endpoint.close()
        thread.close()
        with suppress(Exception):
            await waiting
