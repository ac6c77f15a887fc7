"""What is asked of many groups: each of its own coordinator, as few requests as can be.

    driver = GroupDriver(cluster, ask)
    results = await driver.run(group_ids)

`ask(node, group_ids)` puts one request to one coordinator, about at most `chunk`
groups, and gives what it said of each: a value, or the error of that group.

How a call runs: coordinators that are not known are looked up in batches (KIP-699);
then the groups of one coordinator go to it together. What may pass is asked again until
the deadline, `api_timeout_ms` for the whole call: in place while a coordinator loads,
with a new look-up when it is missing or elsewhere (A-64) or its connection was lost.
The groups of each coordinator go their own way, so that a broker that is slow or dead
holds up nobody else's.

Rules of this file: the outcome of a group is told once; an error of a group, or of the
broker it is on, raises nothing. What raises is that no broker can be reached at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.client.admin.bulk import backoff_s, in_chunks
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.group_values import Node
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster, may_pass
from coterie.client.coordinators import Found
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
Ask: TypeAlias = Callable[[Node, Sequence[GroupId]], Awaitable[Outcomes[V]]]

LOOKUP_CHUNK: Final = 500
"""Groups in one FindCoordinator."""
GROUP_CHUNK: Final = 100
"""Groups in one request to a coordinator: enough that the way there hardly counts, few
enough that an answer with all their members stays small."""
IN_FLIGHT_MAX: Final = 4
"""Requests that one broker has yet to answer."""
ANY_NODE: Final = -1
_STRING_BYTES_MAX: Final = 32_767


class GroupDriver(Generic[V]):
    """One call about many groups. See the module's docstring."""

    def __init__(
        self,
        cluster: Cluster,
        ask: Ask[V],
        *,
        chunk: int = GROUP_CHUNK,
        progress: Progress | None = None,
    ) -> None:
        self._cluster = cluster
        self._ask = ask
        self._chunk = chunk
        self._lookup_chunk = LOOKUP_CHUNK
        self._progress = progress
        self._all = 0
        self._values: dict[GroupId, V] = {}
        self._errors: dict[GroupId, CoterieError] = {}
        self._in_flight: dict[int, asyncio.Semaphore] = {}
        self._deadline = Deadline(cluster)
        self._reasons: dict[GroupId, CoterieError] = {}

    async def run(self, group_ids: Iterable[GroupId]) -> Results[GroupId, V]:
        """The outcome of each group, in the order in which they were given.

        Raises ClientError when no broker can be reached.
        """
        wanted = list(dict.fromkeys(group_ids))
        self._all = len(wanted)
        odd = {each: _no_id(each) for each in wanted if not is_representable(each)}
        self._settle({}, odd)
        if sound := [each for each in wanted if each not in odd]:
            await self._deadline.retrying(self._cluster.connection)
            await self._pursue(sound, tries=1)
        return Results(
            {each: self._values[each] for each in wanted if each in self._values},
            {each: self._errors[each] for each in wanted if each in self._errors},
        )

    # The way of some groups, to their outcome.

    async def _pursue(self, group_ids: Iterable[GroupId], tries: int) -> None:
        """Find the coordinators of groups, then ask each about all that are its own."""
        found = await self._locate(group_ids)
        there: dict[Node, list[GroupId]] = {}
        errors: dict[GroupId, CoterieError] = {}
        for group_id, place in found.items():
            if isinstance(place, Node):
                there.setdefault(place, []).append(group_id)
            else:
                errors[group_id] = place
        asking = (self._ask_all(node, own, tries) for node, own in there.items())
        await asyncio.gather(*asking, self._judge(errors, tries))

    async def _ask_all(
        self, node: Node, group_ids: Sequence[GroupId], tries: int
    ) -> None:
        """Ask a coordinator about all that are its own, a few requests at a time. When
        it cannot be asked, the rest of them waits for no time-out of its own."""
        portions = in_chunks(group_ids, self._chunk)
        errors: dict[GroupId, CoterieError] = {}
        failure: CoterieError | None = None

        async def work() -> None:
            nonlocal failure
            for some in portions:
                if failure is None:
                    said, failure = await self._ask_one(node, some)
                else:
                    said = dict.fromkeys(some, failure)
                errors.update(self._note(node, some, said))

        await _at_once(work)
        await self._judge(errors, tries)

    async def _ask_one(
        self, node: Node, group_ids: Sequence[GroupId]
    ) -> tuple[Outcomes[V], CoterieError | None]:
        """The outcomes of one request, and what the next one would fail with, too."""
        try:
            said = await self._limited(
                node.node_id, partial(self._ask, node, group_ids)
            )
        except CoterieError as error:
            return dict.fromkeys(group_ids, error), error if may_pass(error) else None
        return said, None

    def _note(
        self, node: Node, group_ids: Iterable[GroupId], said: Outcomes[V]
    ) -> Mapping[GroupId, CoterieError]:
        """Keep the values; the errors."""
        errors: dict[GroupId, CoterieError] = {}
        values: dict[GroupId, V] = {}
        for group_id in group_ids:
            outcome = said[group_id] if group_id in said else _silent(node)
            if isinstance(outcome, CoterieError):
                errors[group_id] = outcome
            else:
                values[group_id] = outcome
        self._settle(values, {})
        return errors

    async def _judge(self, errors: Mapping[GroupId, CoterieError], tries: int) -> None:
        """What may pass is tried again in a while; the rest is the outcome."""
        unbatched = [each for each, error in errors.items() if self._unbatch(error)]
        again = {e: error for e, error in errors.items() if may_pass(error)}
        delay_s = backoff_s(self._cluster.options, tries)
        if not self._deadline.leaves(delay_s):
            again = {}
        settled = errors.keys() - again.keys() - set(unbatched)
        self._settle({}, {e: self._reason(e, errors[e]) for e in settled})
        if unbatched:
            await self._pursue(unbatched, tries)
        if again:
            self._reasons.update(again)
            for group_id, error in again.items():
                if not _is_loading(error):
                    self._cluster.forget_coordinator(group_id)
            await asyncio.sleep(delay_s)
            await self._pursue(again, tries + 1)

    def _reason(self, group_id: GroupId, error: CoterieError) -> CoterieError:
        """The error to tell. That time is up says less than why it was tried again."""
        if isinstance(error, RequestTimedOut) and not self._deadline.leaves(0):
            return self._reasons.get(group_id, error)
        return error

    # Look-ups.

    async def _locate(
        self, group_ids: Iterable[GroupId]
    ) -> Mapping[GroupId, Node | CoterieError]:
        """The coordinator of each group, or why it was not found."""
        places = {each: self._known(each) for each in group_ids}
        unknown = [each for each, place in places.items() if place is None]
        found: dict[GroupId, Node | CoterieError] = {}
        portions = in_chunks(unknown, self._lookup_chunk)

        async def work() -> None:
            for some in portions:
                found.update(await self._look_up(some))

        await _at_once(work)
        located = {each: place for each, place in places.items() if place is not None}
        return {**located, **found}

    async def _look_up(
        self, group_ids: Sequence[GroupId]
    ) -> Mapping[GroupId, Node | CoterieError]:
        look = partial(self._cluster.find_coordinators, group_ids)
        try:
            found = await self._limited(ANY_NODE, look)
        except CoterieError as error:
            return dict.fromkeys(group_ids, error)
        return {each: _place(each, found.get(each)) for each in group_ids}

    def _known(self, group_id: GroupId) -> Node | None:
        known = self._cluster.known_coordinator(group_id)
        return known and _node(known[0], *known[1])

    def _unbatch(self, error: CoterieError) -> bool:
        """Whether it says that the broker takes one group a request; then that is how
        the rest of the call is asked (B-23, A-65)."""
        if isinstance(error, NoBatchedFindCoordinatorsError):
            self._lookup_chunk = 1
            return True
        if isinstance(error, NoBatchedOffsetFetchError):
            self._chunk = 1
            return True
        return False

    # Limits, and what is told.

    async def _limited(self, node_id: int, job: Callable[[], Awaitable[T]]) -> T:
        """Do it before the deadline, when the broker has room for one more."""
        room = self._in_flight.setdefault(node_id, asyncio.Semaphore(IN_FLIGHT_MAX))

        async def with_room() -> T:
            async with room:
                return await job()

        return await self._deadline.limit(with_room)

    def _settle(
        self, values: Mapping[GroupId, V], errors: Mapping[GroupId, CoterieError]
    ) -> None:
        self._values.update(values)
        self._errors.update(errors)
        if self._progress is not None and (values or errors):
            self._progress(len(self._values) + len(self._errors), self._all)


async def _at_once(work: Callable[[], Awaitable[None]]) -> None:
    """Several of the same worker, who take from the same heap. So no more tasks are
    made than there are requests on their way."""
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT_MAX)))


def is_representable(group_id: object) -> bool:
    """Whether a request can carry it: text, and not too long for one (B-24)."""
    if not isinstance(group_id, str):
        return False
    try:
        return len(group_id.encode()) <= _STRING_BYTES_MAX
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _no_id(group_id: object) -> ApiError:
    return ApiError(ErrorCode.INVALID_GROUP_ID, f"{group_id!r} cannot be a group id")


def _silent(node: Node) -> MalformedFrame:
    return MalformedFrame(f"{node} left the group out of its answer")


def _is_loading(error: CoterieError) -> bool:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return isinstance(error, ApiError) and error.code is loading


def _place(group_id: GroupId, found: Found | None) -> Node | CoterieError:
    if found is None:
        return MalformedFrame(f"FindCoordinator: nothing about group {group_id}")
    if found.code is ErrorCode.NONE:
        return _node(found.node_id, found.host, found.port)
    return refusal(found.code, f"group {group_id}", found.message)


@lru_cache(maxsize=1_000)
def _node(node_id: int, host: str, port: int) -> Node:
    """One value for all groups of a broker."""
    return Node(node_id, host, port)
