"""The requests that a test server received, and the rebalances of its groups.

    kafka.requests.of("OffsetCommit", group="billing")
    kafka.requests.wait_for("Heartbeat", count=2)
    kafka.rebalances.of("billing")[-1].reason

Both are bounded: the oldest entries are dropped first, and `dropped` counts them.
Records of Produce and Fetch are not kept, only their size. All methods are safe in any
thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from coterie.testing.names import api_named

REQUESTS_MAX: Final = 10_000
REBALANCES_MAX: Final = 1_000
WAIT_S: Final = 30.0


@dataclass(slots=True, eq=False, kw_only=True)
class RecordedRequest:
    """One request, and the response once it was sent.

    `time_ms` is the server's clock in ms since the epoch, which `clock.advance` moves;
    `duration_ms` is measured with it. `connection` numbers the connections of a server.
    `request` and `response` are messages of `coterie.wire`. `record_bytes` is the size
    of the records in a Produce request or a Fetch response.
    """

    time_ms: int
    node: int
    connection: int
    client: str
    client_id: str
    principal: str
    api: str
    version: int
    groups: tuple[str, ...]
    members: tuple[str, ...]
    """The member ids and instance ids in the request, but not those of an assignment
    that a leader sends."""
    topics: tuple[str, ...]
    """The topics in the request and, for a Fetch, in its session."""
    transactional_ids: tuple[str, ...]
    request: Any = field(repr=False)
    record_bytes: int = 0
    response: Any = field(default=None, repr=False)
    errors: tuple[str, ...] = ()
    """The names of the different error codes in the response."""
    fault: str | None = None
    """The name of the fault that the request met."""
    duration_ms: int | None = None
    """The time until the response; None while there is none."""
    is_done: bool = False
    """Whether the request was answered, or will not be answered."""

    @property
    def group(self) -> str | None:
        """The first group of the request."""
        return self.groups[0] if self.groups else None

    @property
    def transactional_id(self) -> str | None:
        """The first transactional id of the request."""
        return self.transactional_ids[0] if self.transactional_ids else None

    def __str__(self) -> str:
        words = [f"{self.api} v{self.version}", f"client_id={self.client_id}"]
        words += [f"group={each}" for each in self.groups]
        words += [f"member={each}" for each in self.members]
        words += [f"topic={each}" for each in self.topics[:3]]
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition on requests. None matches every value.

    `api` is a name or several. `member` is a member id or a group instance id.
    """

    api: str | tuple[str, ...] | None = None
    group: str | None = None
    client_id: str | None = None
    topic: str | None = None
    member: str | None = None
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        for name in (self.api,) if isinstance(self.api, str) else self.api or ():
            api_named(name)

    def matches(self, recorded: RecordedRequest) -> bool:
        """Return whether a request fulfils the condition."""
        api = self.api
        return (
            (
                api is None
                or (
                    recorded.api == api if isinstance(api, str) else recorded.api in api
                )
            )
            and (self.group is None or self.group in recorded.groups)
            and (self.client_id is None or self.client_id == recorded.client_id)
            and (self.topic is None or self.topic in recorded.topics)
            and (self.member is None or self.member in recorded.members)
            and (
                self.transactional_id is None
                or self.transactional_id in recorded.transactional_ids
            )
        )

    def __str__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return ", ".join(f"{name}={value!r}" for name, value in values if value)


Entry = TypeVar("Entry")


class _Record(Generic[Entry]):
    """A bounded list of entries that other threads wait for."""

    def __init__(self, limit: int) -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._changed = threading.Condition()
        self._changes = 0
        self.dropped = 0
        """The number of entries that were dropped because of the limit."""

    def append(self, entry: Entry) -> None:
        """Add an entry; drop the oldest one above the limit."""
        with self._changed:
            self.dropped += len(self._entries) == self._entries.maxlen
            self._entries.append(entry)
            self.notify()

    def notify(self) -> None:
        """Wake the threads that wait, because an entry has changed."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def clear(self) -> None:
        """Remove all entries."""
        with self._changed:
            self._entries.clear()
            self.dropped = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries that are kept now, in order."""
        with self._changed:
            return iter(tuple(self._entries))

    def _wait(
        self, find: Callable[[], list[Entry]], count: int, timeout_s: float, what: str
    ) -> list[Entry]:
        deadline = time.monotonic() + timeout_s
        while True:
            # The search is outside the lock: it must not delay the server.
            seen = self._changes
            found = find()
            if len(found) >= count:
                return found
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise AssertionError(
                    f"{len(found)} of {count} {what} within {timeout_s:g} s"
                )
            with self._changed:
                self._changed.wait_for(partial(self._is_changed, seen), left_s)

    def _is_changed(self, seen: int) -> bool:
        return self._changes != seen


class Requests(_Record[RecordedRequest]):
    """The requests of a server, oldest first."""

    def __init__(self, limit: int = REQUESTS_MAX) -> None:
        super().__init__(limit)

    def of(
        self,
        api: str | tuple[str, ...] | None = None,
        *,
        errors: str | None = None,
        **filters: str | None,
    ) -> list[RecordedRequest]:
        """Return the requests of an API, further limited by `group`, `client_id`,
        `topic`, `member`, `transactional_id`, and `errors`, an error of the response.
        """
        wanted = Filter(api=api, **filters)
        return [
            each
            for each in self
            if wanted.matches(each) and (errors is None or errors in each.errors)
        ]

    def wait_for(
        self,
        api: str | tuple[str, ...] | None = None,
        *,
        count: int = 1,
        timeout_s: float = WAIT_S,
        errors: str | None = None,
        **filters: str | None,
    ) -> list[RecordedRequest]:
        """Wait until `count` requests are answered; return all that match.

        Raises AssertionError after `timeout_s`.
        """
        wanted = Filter(api=api, **filters)

        def find() -> list[RecordedRequest]:
            return [
                each
                for each in self
                if each.is_done
                and wanted.matches(each)
                and (errors is None or errors in each.errors)
            ]

        return self._wait(find, count, timeout_s, f"answered requests ({wanted})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance of a group.

    `kind` is "classic" or "consumer" (KIP-848), and the epochs are generations or group
    epochs. `outcome` is "stable", "empty", or None while the rebalance is in progress;
    then the values after it are None. `further_reasons` arose while it was in progress.
    """

    group: str
    kind: str
    reason: str
    started_ms: int
    members_before: int
    epoch_before: int
    further_reasons: tuple[str, ...] = ()
    outcome: str | None = None
    ended_ms: int | None = None
    members_after: int | None = None
    epoch_after: int | None = None


class Rebalances(_Record[Rebalance]):
    """The rebalances of a server's groups, in the order in which they started."""

    def __init__(self, limit: int = REBALANCES_MAX) -> None:
        super().__init__(limit)

    def of(self, group: str) -> list[Rebalance]:
        """Return the rebalances of a group."""
        return [each for each in self if each.group == group]

    def wait_for(
        self, group: str, *, count: int = 1, timeout_s: float = WAIT_S
    ) -> list[Rebalance]:
        """Wait until `count` rebalances of a group have ended; return them.

        Raises AssertionError after `timeout_s`.
        """

        def find() -> list[Rebalance]:
            return [
                each
                for each in self
                if each.group == group and each.outcome is not None
            ]

        return self._wait(find, count, timeout_s, f"rebalances of {group}")

    def observe(self, event: str, time_ms: int, fields: Mapping[str, Any]) -> None:
        """Record an event of `RebalanceLog`."""
        with self._changed:
            index = self._index_of_open(fields["group"])
            if event == "rebalance_started":
                self._start(index, time_ms, fields)
            elif index is not None:
                self._entries[index] = replace(
                    self._entries[index],
                    outcome=fields["outcome"],
                    ended_ms=time_ms,
                    members_after=fields["members_after"],
                    epoch_after=fields.get(
                        "generation_after", fields.get("epoch_after")
                    ),
                )
                self.notify()

    def _start(
        self, index: int | None, time_ms: int, fields: Mapping[str, Any]
    ) -> None:
        if index is not None:
            known = self._entries[index]
            reasons = (*known.further_reasons, fields["reason"])
            self._entries[index] = replace(known, further_reasons=reasons)
            return
        self.append(
            Rebalance(
                group=fields["group"],
                kind=fields["type"],
                reason=fields["reason"],
                started_ms=time_ms,
                members_before=fields["members"],
                epoch_before=fields.get("generation", fields.get("epoch", -1)),
            )
        )

    def _index_of_open(self, group: str) -> int | None:
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].group == group:
                return index if self._entries[index].outcome is None else None
        return None


# Text.


def render(
    requests: Iterable[RecordedRequest],
    rebalances: Iterable[Rebalance] = (),
) -> str:
    """Return requests and rebalances as a table, ordered by time.

    Times are in seconds since the first entry.
    """
    lines = [(each.time_ms, _request_cells(each)) for each in requests]
    for rebalance in rebalances:
        lines.extend(_rebalance_lines(rebalance))
    if not lines:
        return "no requests"
    lines.sort(key=lambda line: line[0])
    start_ms = lines[0][0]
    rows = [
        ("time", "request", "client", "group", "member", "result"),
        *((f"+{(ms - start_ms) / 1000:.3f}", *cells) for ms, cells in lines),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    dropped = getattr(requests, "dropped", 0)
    if dropped:
        text.insert(0, f"({dropped} earlier requests were dropped)")
    return "\n".join(line.rstrip() for line in text)


def _request_cells(each: RecordedRequest) -> tuple[str, ...]:
    result = "/".join(each.errors) or ("ok" if each.duration_ms is not None else "-")
    if each.duration_ms:
        result += f" after {each.duration_ms} ms"
    if each.fault is not None:
        result += f" [{each.fault}]"
    return (
        f"{each.api} v{each.version}",
        each.client_id,
        ",".join(each.groups),
        ",".join(each.members),
        result,
    )


def _rebalance_lines(each: Rebalance) -> Iterator[tuple[int, tuple[str, ...]]]:
    word = "generation" if each.kind == "classic" else "epoch"
    reason = "; ".join((each.reason, *each.further_reasons))
    before = f"{each.members_before} members, {word} {each.epoch_before}: {reason}"
    yield each.started_ms, ("rebalance starts", "", each.group, "", before)
    if each.ended_ms is not None:
        after = f"{each.outcome}: {each.members_after} members"
        if each.epoch_after is not None:
            after += f", {word} {each.epoch_after}"
        yield each.ended_ms, ("rebalance ends", "", each.group, "", after)
