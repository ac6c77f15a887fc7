"""Calls about many groups: each group is sent to its coordinator, in few requests.

    driver = GroupDriver(cluster, request)
    results = await driver.run(group_ids)

`request(node, group_ids)` sends one request to one coordinator and returns the outcome
of each group: a value, or the group's error.

A run finds unknown coordinators in batches (KIP-699) and sends the groups of one
coordinator together. Requests are retried after retriable errors until the deadline,
`api_timeout_ms` for the whole call: on the same broker while its coordinator loads,
otherwise after another FindCoordinator (A-64). Each coordinator proceeds on its own, so
a slow or dead broker delays only its own groups.

Rules of this file: each group gets one outcome. An error of a group or of its broker is
not raised; `run` raises only when no broker can be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.client.admin.calls import Deadline, backoff_s, in_chunks
from coterie.client.admin.groups import Node
from coterie.client.admin.results import Progress, Results, api_error
from coterie.client.cluster import Cluster, is_retriable
from coterie.errors import (
    ApiError,
    CoterieError,
    MalformedFrame,
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    RequestTimedOut,
)
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

V = TypeVar("V")
T = TypeVar("T")

Outcomes: TypeAlias = Mapping[GroupId, V | CoterieError]
Request: TypeAlias = Callable[[Node, Sequence[GroupId]], Awaitable[Outcomes[V]]]

LOOKUP_CHUNK: Final = 500
"""Groups in one FindCoordinator request."""
GROUP_CHUNK: Final = 100
"""Groups in one request to a coordinator: enough to make the round trip negligible,
few enough to bound the size of a response with all their members."""
IN_FLIGHT_MAX: Final = 4
"""Requests in flight to one broker."""
ANY_NODE: Final = -1
_STRING_BYTES_MAX: Final = 32_767


class GroupDriver(Generic[V]):
    """One call about many groups. See the module's docstring."""

    def __init__(
        self,
        cluster: Cluster,
        request: Request[V],
        *,
        chunk: int = GROUP_CHUNK,
        progress: Progress | None = None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._chunk = chunk
        self._lookup_chunk = LOOKUP_CHUNK
        self._progress = progress
        self._total = 0
        self._values: dict[GroupId, V] = {}
        self._errors: dict[GroupId, CoterieError] = {}
        self._in_flight: dict[int, asyncio.Semaphore] = {}
        self._deadline = Deadline(cluster)
        self._retried: dict[GroupId, CoterieError] = {}  # the last error of a retry

    async def run(self, group_ids: Iterable[GroupId]) -> Results[GroupId, V]:
        """Return the outcome of each group, in the order given.

        Raises ClientError when no broker can be reached.
        """
        wanted = list(dict.fromkeys(group_ids))
        self._total = len(wanted)
        valid = [each for each in wanted if is_representable(each)]
        invalid = ErrorCode.INVALID_GROUP_ID
        self._settle(
            errors={
                each: ApiError(invalid, f"{each!r} is not a valid group id")
                for each in wanted
                if not is_representable(each)
            }
        )
        if valid:
            await self._deadline.retrying(self._cluster.connection)
            await self._run(valid, attempt=1)
        return Results(
            {each: self._values[each] for each in wanted if each in self._values},
            {each: self._errors[each] for each in wanted if each in self._errors},
        )

    async def _run(self, group_ids: Iterable[GroupId], attempt: int) -> None:
        """Find the coordinators of groups and send each coordinator its own."""
        by_node: dict[Node, list[GroupId]] = {}
        errors: dict[GroupId, CoterieError] = {}
        for group_id, place in (await self._find_coordinators(group_ids)).items():
            if isinstance(place, Node):
                by_node.setdefault(place, []).append(group_id)
            else:
                errors[group_id] = place
        await asyncio.gather(
            *(self._send(node, own, attempt) for node, own in by_node.items()),
            self._retry_or_settle(errors, attempt),
        )

    async def _find_coordinators(
        self, group_ids: Iterable[GroupId]
    ) -> Mapping[GroupId, Node | CoterieError]:
        """Return the coordinator of each group, from the cache or by FindCoordinator,
        or the error of the lookup."""
        places: dict[GroupId, Node | CoterieError] = {}
        unknown: list[GroupId] = []
        for group_id in group_ids:
            if (cached := self._cluster.cached_coordinator(group_id)) is None:
                unknown.append(group_id)
            else:
                places[group_id] = _node(cached[0], *cached[1])
        chunks = in_chunks(unknown, self._lookup_chunk)

        async def work() -> None:
            for chunk in chunks:
                lookup = partial(self._cluster.find_coordinators, chunk)
                try:
                    results = await self._limited(ANY_NODE, lookup)
                except CoterieError as error:
                    places.update(dict.fromkeys(chunk, error))
                    continue
                for group_id in chunk:
                    result = results.get(group_id)
                    if result is None:
                        places[group_id] = MalformedFrame(
                            f"the FindCoordinator response omits group {group_id}"
                        )
                    elif result.code is ErrorCode.NONE:
                        places[group_id] = _node(
                            result.node_id, result.host, result.port
                        )
                    else:
                        places[group_id] = api_error(
                            result.code, f"group {group_id}", result.message
                        )

        await _run_workers(work)
        return places

    async def _send(
        self, node: Node, group_ids: Sequence[GroupId], attempt: int
    ) -> None:
        """Send a coordinator the requests about its groups, a few at a time."""
        chunks = in_chunks(group_ids, self._chunk)
        errors: dict[GroupId, CoterieError] = {}
        failure: CoterieError | None = None

        async def work() -> None:
            nonlocal failure
            outcomes: Outcomes[V]
            for chunk in chunks:
                # After a retriable failure the remaining chunks fail at once, instead
                # of each waiting for its own time-out.
                if failure is None:
                    request = partial(self._request, node, chunk)
                    try:
                        outcomes = await self._limited(node.node_id, request)
                        failure = None
                    except CoterieError as error:
                        outcomes = dict.fromkeys(chunk, error)
                        failure = error if is_retriable(error) else None
                else:
                    outcomes = dict.fromkeys(chunk, failure)
                values: dict[GroupId, V] = {}
                for group_id in chunk:
                    if group_id not in outcomes:
                        errors[group_id] = MalformedFrame(
                            f"the response of {node} omits group {group_id}"
                        )
                        continue
                    outcome = outcomes[group_id]
                    if isinstance(outcome, CoterieError):
                        errors[group_id] = outcome
                    else:
                        values[group_id] = outcome
                self._settle(values)

        await _run_workers(work)
        await self._retry_or_settle(errors, attempt)

    async def _retry_or_settle(
        self, errors: Mapping[GroupId, CoterieError], attempt: int
    ) -> None:
        """Retry groups with a retriable error after a backoff; settle the others."""
        unbatched = [each for each, error in errors.items() if self._unbatch(error)]
        retried = {each: error for each, error in errors.items() if is_retriable(error)}
        delay_s = backoff_s(self._cluster.options, attempt)
        if not self._deadline.leaves(delay_s):
            retried = {}
        settled: dict[GroupId, CoterieError] = {}
        for group_id in errors.keys() - retried.keys() - set(unbatched):
            error = errors[group_id]
            # Return the error that led to the retry; it is more specific than a
            # time-out.
            if isinstance(error, RequestTimedOut) and not self._deadline.leaves(0):
                error = self._retried.get(group_id, error)
            settled[group_id] = error
        self._settle(errors=settled)
        if unbatched:
            await self._run(unbatched, attempt)
        if retried:
            self._retried.update(retried)
            for group_id, error in retried.items():
                is_loading = (
                    isinstance(error, ApiError)
                    and error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                )
                if not is_loading:
                    self._cluster.forget_coordinator(group_id)
            await asyncio.sleep(delay_s)
            await self._run(retried, attempt + 1)

    def _unbatch(self, error: CoterieError) -> bool:
        """Return whether the error means that the broker accepts only one group per
        request; if so, send the remaining groups one by one (B-23, A-65).
        """
        if isinstance(error, NoBatchedFindCoordinatorsError):
            self._lookup_chunk = 1
            return True
        if isinstance(error, NoBatchedOffsetFetchError):
            self._chunk = 1
            return True
        return False

    async def _limited(self, node_id: int, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request within the deadline and the broker's limit in flight."""
        slots = self._in_flight.setdefault(node_id, asyncio.Semaphore(IN_FLIGHT_MAX))

        async def in_slot() -> T:
            async with slots:
                return await request()

        return await self._deadline.limit(in_slot)

    def _settle(
        self,
        values: Mapping[GroupId, V] | None = None,
        errors: Mapping[GroupId, CoterieError] | None = None,
    ) -> None:
        self._values.update(values or {})
        self._errors.update(errors or {})
        if self._progress is not None and (values or errors):
            self._progress(len(self._values) + len(self._errors), self._total)


async def _run_workers(work: Callable[[], Awaitable[None]]) -> None:
    """Run several workers that share one iterator of chunks, so that there are no more
    tasks than requests in flight."""
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT_MAX)))


def is_representable(group_id: object) -> bool:
    """Return whether a request can carry the id: text of at most 32,767 bytes of UTF-8
    (B-24)."""
    if not isinstance(group_id, str):
        return False
    try:
        return len(group_id.encode()) <= _STRING_BYTES_MAX
    except UnicodeEncodeError:  # an unpaired surrogate
        return False


@lru_cache(maxsize=1_000)
def _node(node_id: int, host: str, port: int) -> Node:
    """Return the node, one shared object for all groups of a broker."""
    return Node(node_id, host, port)
