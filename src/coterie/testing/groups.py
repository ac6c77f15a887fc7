"""Groups of a test server: their state, offsets and lag, and waits for them.

billing = kafka.groups["billing"]
billing.wait_for(state="Stable", members=2)
billing.wait_for(lag=0)
billing.seek({"orders": "earliest"})

A share group (KIP-932) has start offsets in the place of committed ones, and records in
flight:

queue = kafka.groups["queue"]
queue.wait_for(in_flight=0)
queue.deliveries[("orders", 0, 5)].count
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from coterie.errors import ApiError, code_of
from coterie.testing.in_process import TIMEOUT_S, check
from coterie.testing.topics import Position, TopicMethods
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from coterie.broker import Server
    from coterie.client.admin.groups import GroupDescription, MemberDescription

Offsets: TypeAlias = (
    Mapping[tuple[TopicName, int], LogOffset] | Mapping[TopicPartition, LogOffset]
)
"""Offsets by (topic, partition)."""
DeliveryState: TypeAlias = Literal["Available", "Acquired", "Acknowledged", "Archived"]
Target: TypeAlias = LogOffset | Literal["earliest", "latest"]

POLL_S: Final = 0.005
_DEAD: Final = "Dead"
_STATES: Final = (
    *("Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady"),
    *("PreparingRebalance", "Reconciling", "Stable"),
)
_SHARE: Final = "share"
_GROUP_RESOURCE: Final = 32
_SET: Final = 0
_DELIVERY_STATES: Final[tuple[DeliveryState, ...]] = (
    *("Available", "Acquired", "Acknowledged", "Archived", "Archived"),
)
"""By their number in the records of Kafka, of which 3 is archived once its dead letter
is written."""
_NOT_A_CONSUMER_GROUP: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,
)
# The newest versions that have topics by name.
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9


class RecordId(NamedTuple):
    """A record by its place."""

    topic: TopicName
    partition: int
    offset: LogOffset


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery state of a record in a share group."""

    state: DeliveryState
    """Acquired: a member has it. Archived: rejected, or delivered too often."""
    count: int
    """How often it was delivered, as a member sees it; 0 is possible after a restart
    only."""
    member_id: str | None
    """The member that has acquired it."""
    lock_ms: int | None
    """The milliseconds until its lock ends, by the server's clock."""


class Groups(Mapping[GroupId, "Group"]):
    """The groups of a server by id.

    `kafka.groups[...]` returns a group whether it exists or not: a consumer may join it
    later. Iteration and `in` are about those that exist.
    """

    def __init__(self, kafka: TopicMethods) -> None:
        self._kafka = kafka

    def __getitem__(self, group_id: GroupId) -> Group:
        return Group(self._kafka, group_id)

    def __contains__(self, group_id: object) -> bool:
        return group_id in tuple(self)

    def __iter__(self) -> Iterator[GroupId]:
        nodes = self._kafka.call(lambda server: len(server.nodes))
        for node in range(nodes):
            response = self._kafka.request(
                m.ListGroupsRequest(), m.ListGroupsResponse, partition=node
            )
            check(response.error_code, "list groups")
            yield from sorted(group.group_id for group in response.groups)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Group:
    """A group of a server. Its properties are read from the server at each access."""

    def __init__(self, kafka: TopicMethods, group_id: GroupId) -> None:
        self._kafka = kafka
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"Group({self.group_id!r})"

    def __str__(self) -> str:
        """Return its id: some clients convert the values of their configuration."""
        return self.group_id

    @property
    def description(self) -> GroupDescription | None:
        """The group as an admin client describes it; None when it does not exist."""
        # The admin client is half as large as the server, and not every test needs it.
        from coterie.client.admin.describe_groups import classic_group, consumer_group
        from coterie.client.admin.groups import GroupDescription, Node
        from coterie.client.admin.share_groups import share_group

        node = Node(-1, "127.0.0.1", 0)
        request = m.ConsumerGroupDescribeRequest(group_ids=[self.group_id])
        (consumer,) = self._kafka.request(
            request, m.ConsumerGroupDescribeResponse, group=self.group_id
        ).groups
        if consumer.error_code not in _NOT_A_CONSUMER_GROUP:
            described = consumer_group(consumer, node)
        else:
            (classic,) = self._kafka.request(
                m.DescribeGroupsRequest(
                    groups=[self.group_id], include_private_fields=True
                ),
                m.DescribeGroupsResponse,
                group=self.group_id,
            ).groups
            described = classic_group(classic, node)
            if code_of(described) is ErrorCode.GROUP_ID_NOT_FOUND:
                (share,) = self._kafka.request(
                    m.ShareGroupDescribeRequest(group_ids=[self.group_id]),
                    m.ShareGroupDescribeResponse,
                    group=self.group_id,
                ).groups
                described = share_group(share, node)
        if isinstance(described, GroupDescription):
            return described
        if code_of(described) is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise described

    @property
    def state(self) -> str:
        """The state by its name in Kafka, as in "Stable"; "Dead" when the group does
        not exist."""
        described = self.description
        return _DEAD if described is None else described.state.value

    @property
    def type(self) -> str | None:
        """The protocol of its members: "classic", "consumer" for KIP-848, also while
        members of both are in it, or "share"; None when the group does not exist."""
        described = self.description
        return None if described is None else described.type.value

    @property
    def members(self) -> tuple[MemberDescription, ...]:
        """The members, with their client ids, hosts and assigned partitions."""
        described = self.description
        return () if described is None else described.members

    @property
    def assignment(self) -> dict[str, tuple[TopicPartition, ...]]:
        """The assigned partitions by client id; by member id for members that have the
        same client id as another one."""
        members = self.members
        counts = Counter(member.client_id for member in members)
        return {
            member.client_id
            if counts[member.client_id] == 1
            else member.member_id: member.assignment
            for member in members
        }

    @property
    def offsets(self) -> dict[TopicPartition, LogOffset]:
        """The committed offsets; of a share group the start offsets: the first record
        of each partition that may still be delivered."""
        if self.type == _SHARE:
            return {
                where: part.start_offset for where, part in self._share_partitions()
            }
        group = m.OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        (fetched,) = self._kafka.request(
            m.OffsetFetchRequest(groups=[group]),
            m.OffsetFetchResponse,
            version=_FETCH_VERSION,
            group=self.group_id,
        ).groups
        if fetched.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        check(fetched.error_code, f"group {self.group_id}")
        return {
            TopicPartition(topic.name, part.partition_index): part.committed_offset
            for topic in fetched.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """The number of records after the committed offset, by partition.

        It has the partitions with a committed offset, and all of the topics that
        members subscribe to; without a committed offset every record counts. Of a share
        group it has the partitions with a start offset, with the number of records
        that are not acknowledged or archived yet (KIP-1226).
        """
        if self.type == _SHARE:
            return {where: part.lag for where, part in self._share_partitions()}
        offsets = self.offsets
        partitions = set(offsets)
        topics: set[TopicName] = set()
        for member in self.members:
            partitions.update(member.assignment)
            topics.update(member.subscribed_topics or ())
        for topic in topics:
            try:
                partitions.update(self._kafka.partitions_of(topic))
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return {each: self._lag(each, offsets) for each in sorted(partitions)}

    @property
    def lag(self) -> int | None:
        """The sum of `lags`; None while there are none: the group has neither committed
        nor subscribed to a topic yet."""
        lags = self.lags
        return sum(lags.values()) if lags else None

    @property
    def deliveries(self) -> dict[RecordId, Delivery]:
        """The records of a share group that were delivered and are not behind the start
        offset yet, as the server has them in memory; empty for other groups."""
        found: dict[RecordId, Delivery] = {}

        def read(server: Server) -> None:
            broker = server.assembly.broker
            now_ms = broker.data.clock()
            for key, share in broker.share_partitions.of_group(self.group_id).items():
                topic = broker.catalog.topic_name(key.topic_id)
                assert topic is not None, "the partitions of deleted topics are closed"
                for each in share.ranges:
                    delivery = Delivery(
                        _DELIVERY_STATES[each.state],
                        each.delivery_count,
                        each.member or None,
                        each.deadline_ms - now_ms if each.deadline_ms else None,
                    )
                    for offset in range(each.first, each.last + 1):
                        found[RecordId(topic, key.partition, offset)] = delivery

        self._kafka.call(read)
        return dict(sorted(found.items()))

    @property
    def in_flight(self) -> int:
        """The number of records that members of a share group have acquired and not
        acknowledged."""
        return sum(each.state == "Acquired" for each in self.deliveries.values())

    def wait_for(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        committed: Offsets | None = None,
        in_flight: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> Group:
        """Wait until all that is given is true at the same time; return the group.

        `state` is a name as in `state`. `lag` is the greatest sum of `lags`.
        `committed` are the smallest offsets, as in {("orders", 0): 5}. `in_flight` is
        exactly that of a share group. `timeout` is in seconds of the test's own clock.

        Raises AssertionError, with what the group is instead and with its history, and
        ValueError for an unknown state.
        """
        for _ in self.attempts(state, members, lag, committed, in_flight, timeout):
            time.sleep(POLL_S)
        return self

    def attempts(
        self,
        state: str | None,
        members: int | None,
        lag: int | None,
        committed: Offsets | None,
        in_flight: int | None,
        timeout: float,
    ) -> Iterator[None]:
        """Yield while the condition of `wait_for` is false; raise what it raises."""
        if state is not None and state not in _STATES:
            names = ", ".join(_STATES)
            raise ValueError(f"there is no group state {state!r}; there are {names}")
        deadline = time.monotonic() + timeout
        while unmet := self._unmet(state, members, lag, committed, in_flight):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"not within {timeout:g} s: {'; '.join(unmet)}\n{self.report()}"
                )
            yield

    def assert_state(self, state: str) -> None:
        """Raise AssertionError unless the group is in a state now."""
        self._check(self._unmet(state=state))

    def assert_members(self, members: int) -> None:
        """Raise AssertionError unless the group has that many members now."""
        self._check(self._unmet(members=members))

    def assert_lag(self, lag: int) -> None:
        """Raise AssertionError unless the sum of `lags` is exactly this number now."""
        actual = self.lag
        self._check([] if actual == lag else [f"lag {lag}, but it is {actual}"])

    def assert_committed(self, offsets: Offsets) -> None:
        """Raise AssertionError unless exactly these offsets of the given partitions are
        committed now."""
        actual = self.offsets
        self._check(
            [
                f"offset {offset} of {topic}-{partition}, but it is {found}"
                for (topic, partition), offset in offsets.items()
                if (found := actual.get(TopicPartition(topic, partition))) != offset
            ]
        )

    def seek(
        self, target: Mapping[TopicName | tuple[TopicName, int], Target]
    ) -> dict[TopicPartition, LogOffset]:
        """Commit offsets for topics or partitions; return the committed offsets.

        As in {"orders": "earliest", ("returns", 0): 5}. The group must not have
        members: they would go on from their own positions.

        Raises ApiError.
        """
        offsets: dict[TopicPartition, LogOffset] = {}
        for where, position in target.items():
            partitions = (
                self._kafka.partitions_of(where)
                if isinstance(where, str)
                else [TopicPartition(*where)]
            )
            for each in partitions:
                offsets[each] = (
                    self._kafka.log_offset(*each, Position[position.upper()])
                    if isinstance(position, str)
                    else position
                )
        self.commit(offsets)
        return offsets

    def commit(self, offsets: Offsets, *, metadata: str = "") -> None:
        """Commit offsets, as in {("orders", 0): 5}, for a group without members.

        Raises ApiError, with UNKNOWN_MEMBER_ID while the group has members.
        """
        topics: dict[TopicName, m.OffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, m.OffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                m.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=metadata,
                )
            )
        response = self._kafka.request(
            m.OffsetCommitRequest(group_id=self.group_id, topics=list(topics.values())),
            m.OffsetCommitResponse,
            version=_COMMIT_VERSION,
            group=self.group_id,
        )
        for committed in response.topics:
            for part in committed.partitions:
                where = f"{committed.name}-{part.partition_index}"
                what = f"commit of group {self.group_id} for {where}"
                hint = None
                if part.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    hint = "the group has members; close its consumers first"
                check(part.error_code, what, hint)

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set configurations of the group, as {"share.auto.offset.reset": "earliest"},
        whether it exists or not; they are kept when it is deleted.

        Raises ApiError, with INVALID_CONFIG for an unknown name or value.
        """
        resource = m.IncrementalAlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=self.group_id,
            configs=[
                m.IncrementalAlterableConfig(
                    name=name, config_operation=_SET, value=value
                )
                for name, value in configs.items()
            ],
        )
        (altered,) = self._kafka.request(
            m.IncrementalAlterConfigsRequest(resources=[resource]),
            m.IncrementalAlterConfigsResponse,
        ).responses
        check(altered.error_code, f"group {self.group_id}", altered.error_message)

    def delete(self) -> None:
        """Delete the group. Raises ApiError, as while it has members."""
        request = m.DeleteGroupsRequest(groups_names=[self.group_id])
        (deleted,) = self._kafka.request(
            request, m.DeleteGroupsResponse, group=self.group_id
        ).results
        check(deleted.error_code, f"group {self.group_id}", deleted.error_message)

    def history(self) -> str:
        """Return the group's recorded requests and rebalances as a table."""
        return self._kafka.history(self.group_id)

    def report(self) -> str:
        """Return the group's state, members, offsets and history, for people."""
        described = self.description
        lines = [f"group {self.group_id}: {_DEAD if described is None else ''}"]
        if described is not None:
            lines[0] += f"{described.state.value}, {described.type.value}"
            for member in described.members:
                name = member.instance_id or member.client_id
                owned = ", ".join(f"{t}-{p}" for t, p in member.assignment) or "nothing"
                lines.append(f"  member {name} ({member.member_id}) has {owned}")
        offsets = self.offsets
        is_share = described is not None and described.type.value == _SHARE
        noun = "start offset" if is_share else "committed"
        for (topic, partition), lag in self.lags.items():
            found = offsets.get(TopicPartition(topic, partition), "no offset")
            lines.append(f"  {topic}-{partition}: {noun} {found}, lag {lag}")
        for record, delivery in self.deliveries.items():
            lines.append(
                f"  {record.topic}-{record.partition} offset {record.offset}: "
                f"{delivery.state}, delivered {delivery.count} times"
            )
        return "\n".join([*lines, self.history()])

    def _unmet(
        self,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        committed: Offsets | None = None,
        in_flight: int | None = None,
    ) -> list[str]:
        """Return what is expected and not true."""
        unmet = []
        if state is not None or members is not None:
            described = self.description
            actual = _DEAD if described is None else described.state.value
            member_count = 0 if described is None else len(described.members)
            if state not in {None, actual}:
                unmet.append(f"state {state}, but it is {actual}")
            if members not in {None, member_count}:
                unmet.append(f"{members} members, but there are {member_count}")
        if lag is not None:
            actual_lag = self.lag
            if actual_lag is None or actual_lag > lag:
                unmet.append(f"lag {lag}, but it is {actual_lag}")
        if committed is not None:
            offsets = self.offsets
            for (topic, partition), offset in committed.items():
                found = offsets.get(TopicPartition(topic, partition), -1)
                if found < offset:
                    text = "none" if found < 0 else found
                    unmet.append(f"offset {offset} of {topic}-{partition}, not {text}")
        if in_flight is not None and (found := self.in_flight) != in_flight:
            unmet.append(f"{in_flight} records in flight, but there are {found}")
        return unmet

    def _share_partitions(
        self,
    ) -> Iterator[tuple[TopicPartition, m.DescribeShareGroupOffsetsResponsePartition]]:
        """Yield the partitions of a share group that have a start offset."""
        group = m.DescribeShareGroupOffsetsRequestGroup(
            group_id=self.group_id, topics=None
        )
        (described,) = self._kafka.request(
            m.DescribeShareGroupOffsetsRequest(groups=[group]),
            m.DescribeShareGroupOffsetsResponse,
            group=self.group_id,
        ).groups
        check(described.error_code, f"group {self.group_id}", described.error_message)
        for topic in described.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.topic_name, part.partition_index)
                check(part.error_code, str(where), part.error_message)
                if part.start_offset >= 0:
                    yield where, part

    def _check(self, unmet: list[str]) -> None:
        if unmet:
            raise AssertionError(f"expected {'; '.join(unmet)}\n{self.report()}")

    def _lag(
        self, where: TopicPartition, offsets: Mapping[TopicPartition, LogOffset]
    ) -> int:
        end = self._kafka.log_offset(*where, Position.LATEST)
        start = self._kafka.log_offset(*where, Position.EARLIEST)
        return max(end - max(offsets.get(where, start), start), 0)
