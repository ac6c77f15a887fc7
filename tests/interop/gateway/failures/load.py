"""Clients of a gateway that work without pause and note what they see.

`CommitLoad` commits for many groups, so that every shard is in use, and fetches the
offsets back. `MemberLoad` has members of both group protocols.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Self

from coterie.client.classic_member import ClassicMember
from coterie.client.classic_requests import JoinedMember
from coterie.client.cluster import Cluster
from coterie.client.group_member import GroupMember
from coterie.client.options import ClientOptions
from coterie.errors import CoterieError
from coterie.types import GroupId, MemberId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

from .history import CommitHistory, OwnerHistory

TOPIC: Final = "failures"
PARTITIONS: Final = 8
COMMIT_VERSIONS: Final = Versions(2, 9)
"""The versions of OffsetCommit that name topics."""
FETCH_VERSIONS: Final = Versions(8, 9)
OPTIONS: Final = ClientOptions(
    client_id="failures",
    request_timeout_ms=3_000,
    connect_timeout_ms=3_000,
    api_timeout_ms=3_000,
    retry_backoff_ms=20,
    retry_backoff_max_ms=100,
)
_RETRY_S: Final = 0.05
_FETCH_EVERY: Final = 5


async def until(condition: Callable[[], bool], within_s: float) -> None:
    """Wait until a condition is true. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(_RETRY_S)


class GroupsLoad:
    """One client for each of some groups; see `CommitHistory`."""

    def __init__(
        self, bootstrap: str, groups: Sequence[GroupId], pace_s: float
    ) -> None:
        self._cluster = Cluster(bootstrap, OPTIONS)
        self._pace_s = pace_s
        self.histories = {group: CommitHistory() for group in groups}
        self.lost: list[str] = []
        """Fetches that returned an offset that is not possible."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._run(group)) for group in self.histories
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _run(self, group: GroupId) -> None:
        raise NotImplementedError


class CommitLoad(GroupsLoad):
    """Clients that commit and fetch without transactions."""

    def groups_at(self, port: int) -> list[GroupId]:
        """Return the groups whose coordinator is at this port, as the client knows."""
        cached = {
            group: self._cluster._coordinators.get(group) for group in self.histories
        }
        return [
            group
            for group, node_id in cached.items()
            if node_id is not None and self._cluster.node(node_id).port == port
        ]

    async def wait_for_commits(self, within_s: float) -> None:
        """Wait until every group has an acknowledged commit that began later.

        Raises TimeoutError.
        """
        begun = {group: each.attempted for group, each in self.histories.items()}
        await until(
            lambda: all(
                each.acknowledged > begun[group]
                for group, each in self.histories.items()
            ),
            within_s,
        )

    async def _run(self, group: GroupId) -> None:
        while True:
            await self._commit(group)
            if self.histories[group].attempted % _FETCH_EVERY == 0:
                await self.check(group)
            await asyncio.sleep(self._pace_s)

    async def _commit(self, group: GroupId) -> None:
        history = self.histories[group]
        offset = history.begin()
        clock = asyncio.get_running_loop().time
        began_s = clock()
        try:
            response = await self._cluster.call_coordinator(
                group,
                commit_request(group, {0: offset}),
                m.OffsetCommitResponse,
                wanted=COMMIT_VERSIONS,
            )
        except CoterieError:
            history.unanswered(offset)
            self._cluster.forget_coordinator(group)
            await asyncio.sleep(_RETRY_S)
            return
        code = ErrorCode.read(response.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            history.succeeded(offset, began_s, clock())
            return
        history.refused(code.name)
        if code is ErrorCode.REQUEST_TIMED_OUT:
            history.unanswered(offset)
        if code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._cluster.forget_coordinator(group)
        await asyncio.sleep(_RETRY_S)

    async def check(self, group: GroupId) -> bool:
        """Fetch a group's offset, compare it with its history, and return whether a
        coordinator answered."""
        history = self.histories[group]
        acknowledged = history.acknowledged
        fetched = await self._fetch(group, 0)
        if fetched is None:
            return False
        if not history.is_possible(fetched, acknowledged):
            self.lost.append(
                f"group {group}: fetched {fetched}, acknowledged {acknowledged}"
            )
        return True

    async def fetch(self, group: GroupId, partition: int, within_s: float) -> int:
        """Return a committed offset, 0 for none. Raises TimeoutError."""
        async with asyncio.timeout(within_s):
            while True:
                offset = await self._fetch(group, partition)
                if offset is not None:
                    return offset
                await asyncio.sleep(_RETRY_S)

    async def _fetch(self, group: GroupId, partition: int) -> int | None:
        """Return a committed offset, 0 for none; None when no coordinator answers."""
        try:
            response = await self._cluster.call_coordinator(
                group,
                fetch_request([group], [partition]),
                m.OffsetFetchResponse,
                wanted=FETCH_VERSIONS,
            )
        except CoterieError:
            self._cluster.forget_coordinator(group)
            return None
        [each] = response.groups
        if each.error_code or each.topics[0].partitions[0].error_code:
            self._cluster.forget_coordinator(group)
            return None
        return max(0, each.topics[0].partitions[0].committed_offset)

    async def check_all(self, within_s: float) -> None:
        """Check every group. Raises TimeoutError when no coordinator answers."""
        async with asyncio.timeout(within_s):
            for group in self.histories:
                while True:
                    if await self.check(group):
                        break
                    await asyncio.sleep(_RETRY_S)


def commit_request(group: GroupId, offsets: Mapping[int, int]) -> m.OffsetCommitRequest:
    """Return a commit without a member, as of a simple consumer."""
    partitions = [
        m.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset
        )
        for partition, offset in offsets.items()
    ]
    return m.OffsetCommitRequest(
        group_id=group,
        topics=[m.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
    )


def fetch_request(
    groups: Sequence[GroupId], partitions: Sequence[int]
) -> m.OffsetFetchRequest:
    """Return a fetch of the committed offsets of some groups."""
    topics = [
        m.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(partitions))
    ]
    return m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups
        ]
    )


class MemberLoad:
    """Groups of two members: some of the consumer protocol, some of the classic."""

    def __init__(self, bootstrap: str, prefix: str, groups: int) -> None:
        self._bootstrap = bootstrap
        self._stack = AsyncExitStack()
        self.histories: dict[GroupId, OwnerHistory] = {
            f"{prefix}-{kind}-{index}": OwnerHistory()
            for kind in ("consumer", "classic")
            for index in range(groups)
        }
        self.failures: list[str] = []
        """Members that ended with an error."""

    async def __aenter__(self) -> Self:
        for group, history in self.histories.items():
            make = consumer_member if "-consumer-" in group else classic_member
            for name in ("a", "b"):
                member = make(self._bootstrap, group, name, history)
                await self._stack.enter_async_context(self._noted(member, group))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def _noted(
        self, member: ClassicMember | GroupMember, group: GroupId
    ) -> AsyncIterator[None]:
        try:
            async with member:
                yield
        except CoterieError as error:
            self.failures.append(f"{group}: {type(error).__name__}: {error}")

    def take_overlaps(self) -> int:
        """Return how many times a partition had two owners since the last call."""
        count = 0
        for group, history in self.histories.items():
            count += len(history.overlaps)
            self.failures += [
                f"{group}: two owners {each}" for each in history.overlaps
            ]
            history.overlaps.clear()
        return count

    async def wait_until_assigned(self, within_s: float) -> None:
        """Wait until every partition of every group has an owner. Raises
        TimeoutError."""
        await until(
            lambda: all(
                len(each.owners) == PARTITIONS for each in self.histories.values()
            ),
            within_s,
        )


def consumer_member(
    bootstrap: str, group: GroupId, name: str, history: OwnerHistory
) -> GroupMember:
    """Return a member of a consumer group (KIP-848)."""

    async def assigned(partitions: frozenset[TopicPartition]) -> None:
        history.assigned(name, numbers(partitions))

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        history.released(name, numbers(partitions))

    return GroupMember(
        bootstrap,
        group_id=group,
        topics=[TOPIC],
        on_assigned=assigned,
        on_revoked=revoked,
        on_lost=revoked,
        client=OPTIONS,
    )


def numbers(partitions: frozenset[TopicPartition]) -> frozenset[int]:
    """Return the partitions without their topic."""
    return frozenset(each.partition for each in partitions)


def classic_member(
    bootstrap: str, group: GroupId, name: str, history: OwnerHistory
) -> ClassicMember:
    """Return a member of a classic group that divides the partitions in turn."""

    async def assign(
        _: str, members: Sequence[JoinedMember]
    ) -> Mapping[MemberId, bytes]:
        return {
            member.member_id: json.dumps(
                [*range(at, PARTITIONS, len(members))]
            ).encode()
            for at, member in enumerate(members)
        }

    async def assigned(assignment: bytes, _: int) -> None:
        history.assigned(name, frozenset(json.loads(assignment or b"[]")))

    async def revoked() -> None:
        history.released_all(name)

    return ClassicMember(
        bootstrap,
        group_id=group,
        protocol_type="failures",
        protocols={"in-turn": b""},
        assign=assign,
        on_assigned=assigned,
        on_revoked=revoked,
        on_lost=revoked,
        client=OPTIONS,
    )
