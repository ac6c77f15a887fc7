"""The player on a broker over TCP: our server, or Apache Kafka.

Names of groups and topics get a token, so that scenarios share a broker; ids of topics
are those of the broker. Epochs of the text count from 1, those of a broker may start
higher: Kafka 4.3 gives a new consumer group epoch 2. The player translates both in
every request and response.
"""

from __future__ import annotations

import secrets
import select
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

from coterie.broker.coordinator.admin import (
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
)
from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.share.admin import DescribeShareGroup
from coterie.settings import Settings
from coterie.testing import Kafka
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Struct
from tests.broker.coordinator.consumer.groups import record_word
from tests.broker.coordinator.driver import Sent, over_the_wire
from tests.broker.coordinator.requests import topic_id
from tests.broker.server.harness import WireClient
from tests.interop.exchanges import members, producers
from tests.interop.exchanges.consumer_group import set_group_config
from tests.interop.exchanges.log_records import Position, end_of_log, read_log
from tests.scenarios.players import MemberView, Player
from tests.support.waiting import eventually

EPOCHS: Final = {
    "member_epoch",
    "group_epoch",
    "assignment_epoch",
    "generation_id",
    "generation_id_or_member_epoch",
}
TOPICS: Final = {"name", "topic", "topic_name", "subscribed_topic_names"}
PARKING: Final = (m.JoinGroupRequest, m.SyncGroupRequest)
TRANSACTION: Final = 1
OLD_FORMAT: Final = 4
"""The type of the tombstones that Kafka writes for groups of older releases."""


class PendingResponse(Sent):
    """A request on a connection of its own, whose response may come later."""

    def __init__(
        self, request: Any, wire: WireClient, read: Callable[[Any], Any]
    ) -> None:
        self._response: Any = None
        self._wire, self._read = wire, read
        super().__init__(0, request, -1)

    @property
    def parked(self) -> bool:
        return self._response is None and not _has_data(self._wire)

    @property
    def response(self) -> Any:
        """Wait for the response."""
        if self._response is None:
            self._response = self._read(self._wire.receive())
        return self._response

    @response.setter
    def response(self, value: Any) -> None:
        self._response = value


class WirePlayer(Player):
    """Requests on connections to a broker; `close` it.

    `kit` is our server, which has a clock that moves; without it the broker is Kafka.
    """

    exact_order = False
    settings = Settings()

    def __init__(self, bootstrap: str, kit: Kafka | None = None) -> None:
        self.group_id = "g"
        self._bootstrap, self._kit = bootstrap, kit
        self._token = secrets.token_hex(4)
        self._opened = ExitStack()
        self._wire = self._connect()
        self._ids: dict[str, bytes] = {}
        """The broker's ids of the topics of the text."""
        self._shifts: dict[str, int] = {}
        """By group: a broker's epoch minus the epoch of the text."""
        self._starts: dict[str, Position] = {}
        """The end of the log before the first request to each group."""
        self._since: dict[str, Position] = {}
        """The end of the log before the last request to each group."""
        self._producers: dict[int, producers.Producer] = {}
        self._is_consumer_group = False
        """Whether the last JoinGroup was sent to one, which answers it at once."""
        self._changes = 0

    def close(self) -> None:
        """End transactions, and close all connections."""
        for number in list(self._producers):
            self.end_transaction(number, commit=False)
        self._opened.close()

    # Requests.

    def send(self, request: Any, *, version: int | None = None) -> Sent:
        """Send a request in the words of the broker."""
        inner, version, unwrap = self._request_of(request, version)
        group = getattr(request, "group_id", self.group_id) or self.group_id
        self._prepare(group, inner)
        translated = self._translated(inner, out=True)

        def read(response: Any) -> Any:
            self._learn_epoch(group, response)
            return unwrap(self._translated(response, out=False))

        if isinstance(inner, PARKING):
            return self._send_parking(translated, version, read)
        sent = Sent(0, request, -1 if version is None else version)
        sent.response = read(self._wire.call(translated, version))
        return sent

    def _request_of(
        self, request: Any, version: int | None
    ) -> tuple[Message, int | None, Callable[[Any], Any]]:
        """Return the message of a request, its version, and what finds its answer."""
        match request:
            case FetchOffsets(group, stable):
                fetch = m.OffsetFetchRequest(groups=[group], require_stable=stable)
                return fetch, version, lambda response: response.groups[0]
            case DescribeGroup(group_id):
                classic = m.DescribeGroupsRequest(groups=[group_id])
                return classic, version, lambda response: response.groups[0]
            case DescribeConsumerGroup(group_id):
                consumer = m.ConsumerGroupDescribeRequest(group_ids=[group_id])
                return consumer, version, lambda response: response.groups[0]
            case DescribeShareGroup(group_id):
                share = m.ShareGroupDescribeRequest(group_ids=[group_id])
                return share, version, lambda response: response.groups[0]
            case DeleteGroup(group_id):
                delete = m.DeleteGroupsRequest(groups_names=[group_id])
                return delete, version, lambda response: response.results[0]
            case m.TxnOffsetCommitRequest():
                return self._in_transaction(request), 3, lambda response: response
        return request, version, lambda response: response

    def _send_parking(
        self, request: Message, version: int | None, read: Callable[[Any], Any]
    ) -> Sent:
        """Send a request that the broker may answer later, on its own connection."""
        wire = self._connect()
        wire.call(m.ApiVersionsRequest(), 0)  # the broker has accepted the connection
        wire.send(request, version)
        sent = PendingResponse(request, wire, read)
        if self.awaits_joins:
            self._await_handled(request)
        if _needs_id(request) or self._is_consumer_group or _has_data(wire):
            assert sent.response is not None
        return sent

    def _await_handled(self, request: Any) -> None:
        """Return when the group has handled what was sent on other connections.

        It answers this LeaveGroup after all earlier writes.
        """
        for _ in range(3 if request.group_id else 0):
            members.await_writes(self._wire, request.group_id)

    def _prepare(self, group: str, request: Message) -> None:
        name = self._named(group)
        if group not in self._starts:
            self._starts[group] = end_of_log(self._wire, name)
            if self._kit is None:
                members.assign_at_once(self._wire, name)
        self._begin_step()
        self._is_consumer_group = False
        if isinstance(request, m.JoinGroupRequest) and group in self._shifts:
            [found] = self._describe_consumer(name)
            self._is_consumer_group = found.group_state not in ("Empty", "Dead")
            if found.group_state == "Empty":
                del self._shifts[group]  # the join converts it to a classic group

    def _begin_step(self) -> None:
        """Mark the end of the log of all groups."""
        self._since = {
            group: end_of_log(self._wire, self._named(group)) for group in self._starts
        }

    def _describe_consumer(self, name: str) -> list[Any]:
        request = m.ConsumerGroupDescribeRequest(group_ids=[name])
        groups: list[Any] = self._wire.call(request, 1).groups
        return groups

    def _learn_epoch(self, group: str, response: Any) -> None:
        """Find the shift of epochs by the first heartbeat of a group."""
        if (
            isinstance(response, m.ConsumerGroupHeartbeatResponse)
            and group not in self._shifts
            and response.member_epoch > 0
        ):
            upgraded = self._had_classic_members(group)
            self._shifts[group] = 0 if upgraded else response.member_epoch - 1

    def _had_classic_members(self, group: str) -> bool:
        """Return whether the last record of the classic group has members."""
        values: list[Any] = [
            record.value
            for _, word, record in self._records(self._starts[group])
            if word == "classic"
        ]
        return bool(values and values[-1].members)

    def _in_transaction(self, request: Any) -> Any:
        """Begin the transaction, and claim the id of its producer."""
        number = request.producer_id
        if number not in self._producers:
            transactional_id = f"{number}-{self._token}"
            find = m.FindCoordinatorRequest(
                key_type=TRANSACTION, coordinator_keys=[transactional_id]
            )
            self._wire.call(find, 4)  # with the first one Kafka creates its topic
            producer = producers.new_producer(self._wire, transactional_id, version=4)
            self._producers[number] = producer
            group = self._named(request.group_id)
            assert producers.add_offsets(self._wire, producer, group, version=3) == 0
        producer = self._producers[number]
        claimed: Any = over_the_wire(request, 3)
        claimed.transactional_id = producer.transactional_id
        claimed.producer_id, claimed.producer_epoch = producer.id, producer.epoch
        return claimed

    def end_transaction(self, producer_id: int = 7, *, commit: bool) -> None:
        """End a transaction, and wait for its markers."""
        producer = self._producers.pop(producer_id)
        ended = producers.end_txn(self._wire, producer, commit=commit, version=3)
        assert ended.error_code == 0, ended
        producers.new_producer(self._wire, producer.transactional_id, version=4)

    # Names, ids and epochs.

    def _named(self, name: str) -> str:
        return f"{self._token}-{name}" if name else name

    def _unnamed(self, name: str) -> str:
        return name.removeprefix(f"{self._token}-")

    def _translated(self, message: Any, *, out: bool) -> Any:
        """Return a copy in the words of the broker, or of the text."""
        if isinstance(message, list):
            return [self._translated(each, out=out) for each in message]
        if not isinstance(message, Struct):
            return message
        values = {
            name: self._value(message, name, getattr(message, name), out=out)
            for name in message.FIELDS
        }
        return type(message)(**values)

    def _value(self, message: Struct, name: str, value: Any, *, out: bool) -> Any:
        rename = self._named if out else self._unnamed
        if name in EPOCHS and value > 0:
            shift = self._shifts.get(self.group_id, 0)
            return value + (shift if out else -shift)
        if name in ("group_id", "group_ids", "groups_names") or self._is_topic(
            message, name
        ):
            return [*map(rename, value)] if isinstance(value, list) else rename(value)
        if name == "groups":
            return self._groups(value, rename, out=out)
        if name == "topic_id":
            return self._id(value, out=out)
        if name == "subscribed_topic_regex" and value:
            return rename(value)
        if name in ("metadata", "assignment") and isinstance(value, bytes):
            return self._embedded(name, value, rename)
        if name == "partitions" and value and isinstance(value[0], int):
            return sorted(value)
        return self._translated(value, out=out)

    def _is_topic(self, message: Struct, name: str) -> bool:
        holder = type(message).__name__
        return (
            name in TOPICS
            and getattr(message, name) is not None
            and (name != "name" or "Topic" in holder)
        )

    def _groups(
        self, groups: list[Any], rename: Callable[[str], str], *, out: bool
    ) -> list[Any]:
        """Translate groups, or their ids; leave out those of others."""
        found = []
        for each in groups:
            if isinstance(each, str):
                found.append(rename(each))
            elif out or each.group_id.startswith(self._token):
                found.append(self._translated(each, out=out))
        return found

    def _id(self, value: bytes, *, out: bool) -> bytes:
        for name, of_broker in self._ids.items():
            known, other = topic_id(name), of_broker
            if value == (known if out else other):
                return other if out else known
        return value

    def _embedded(self, name: str, data: bytes, rename: Callable[[str], str]) -> bytes:
        """Rename the topics in the bytes of a classic consumer."""
        if len(data) < 2:
            return data
        kind: Any = m.ConsumerProtocolSubscription
        if name == "assignment":
            kind = m.ConsumerProtocolAssignment
        version = int.from_bytes(data[:2], "big")
        value, _ = decode(kind, version, data, 2)
        if name == "metadata":
            value.topics = [*map(rename, value.topics)]
            some = value.owned_partitions
        else:
            some = value.assigned_partitions
        for each in some:
            each.topic = rename(each.topic)
            each.partitions = sorted(each.partitions)
        return data[:2] + encode(value, version)

    # Actions.

    def set_topics(self, counts: Mapping[str, int], *, silent: bool = False) -> None:
        assert not silent
        new = {name: count for name, count in counts.items() if name not in self._ids}
        if new:
            self._create(new)
        grown = [
            m.CreatePartitionsTopic(
                name=self._named(name), count=count, assignments=None
            )
            for name, count in counts.items()
            if name not in new
        ]
        if grown:
            request = m.CreatePartitionsRequest(topics=grown, timeout_ms=60_000)
            results = self._wire.call(request, 3).results
            assert not any(each.error_code for each in results), results
        self._await_topics()

    def _create(self, counts: Mapping[str, int]) -> None:
        topics = [
            m.CreatableTopic(
                name=self._named(name), num_partitions=count, replication_factor=1
            )
            for name, count in counts.items()
        ]
        request = m.CreateTopicsRequest(topics=topics, timeout_ms=60_000)
        for each in self._wire.call(request, 7).topics:
            assert not each.error_code, each
            self._ids[self._unnamed(each.name)] = bytes(each.topic_id)

    def delete_topic(self, name: str) -> None:
        self._begin_step()
        request = m.DeleteTopicsRequest(
            topic_names=[self._named(name)], timeout_ms=60_000
        )
        [deleted] = self._wire.call(request, 5).responses
        assert not deleted.error_code, deleted
        del self._ids[name]
        self._await_topics()

    def _await_topics(self) -> None:
        """Wait for the coordinator of Kafka, which gets topics and configs in order."""
        if self._kit is None:
            self._changes += 1
            timeout_ms = f"{45_000 + self._changes}"
            config = "consumer.session.timeout.ms"
            set_group_config(self._wire, self._named(self.group_id), config, timeout_ms)

    def advance(self, ms: int) -> None:
        """Move the clock of our server. On Kafka the text waits for what happens."""
        self._begin_step()
        if self._kit is not None:
            self._kit.clock.advance(ms=ms)

    def resolve_regexes(self) -> None:
        """Wait for the record of a regular expression."""
        since = self._since[self.group_id]

        def resolved() -> Position | None:
            if self._kit is not None:
                self._kit.clock.advance()
            found = [at for at, word, _ in self._records(since) if word == "regex"]
            return found[0] if found else None

        at = eventually(resolved, expected="a resolved regular expression")
        assert at is not None
        self._since[self.group_id] = at

    def await_share_state(self) -> None:
        """Wait for the record that says so."""
        start = self._starts[self.group_id]

        def initialized() -> bool:
            if self._kit is not None:
                self._kit.clock.advance()
            values: list[Any] = [
                record.value
                for _, word, record in self._records(start)
                if word == "partitions"
            ]
            return bool(values) and not values[-1].initializing_topics

        eventually(initialized, expected="initialized share partitions")

    def restarted(self) -> Player:
        assert self._kit is not None
        self._kit.restart()
        self._wire = self._connect()
        return self

    def configure_server(self, setting: str, value: str) -> None:
        """Do nothing: the kit was started with the settings of the scenario."""

    def configure_group(self, config: str, value: str) -> None:
        set_group_config(self._wire, self._named(self.group_id), config, value)

    def _connect(self) -> WireClient:
        host, _, port = self._bootstrap.rpartition(":")
        return self._opened.enter_context(WireClient(host, int(port)))

    # State.

    def _records(
        self, since: Position, group: str | None = None
    ) -> Iterator[tuple[Position, str, Record]]:
        name = self._named(group or self.group_id)
        if end_of_log(self._wire, name) == since:
            return
        for each in read_log(self._wire, name, since):
            assert each.key is not None
            record = decode_record(each.key, each.value)
            if record is not None and int.from_bytes(each.key[:2], "big") != OLD_FORMAT:
                yield since._replace(offset=each.offset), record_word(record), record

    @property
    def wrote_types(self) -> list[str]:
        return [
            word
            for group, since in self._since.items()
            for _, word, _ in self._records(since, group)
        ]

    def exists(self) -> bool:
        listed = self.send(m.ListGroupsRequest(), version=5).response
        return self.group_id in [each.group_id for each in listed.groups]

    def consumer_group(self) -> tuple[str, int, int]:
        group = self._described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def _described(self) -> Any:
        described = self.send(DescribeConsumerGroup(self.group_id), version=1).response
        assert not described.error_code, ErrorCode(described.error_code).name
        return described

    def classic_group(self) -> tuple[str, int | None]:
        group: Any = self.describe(self.group_id, 5)
        return group.group_state, None

    def member_view(self, member_id: str) -> MemberView:
        """Return what the last record of the member says."""
        records: list[Any] = [
            record
            for _, word, record in self._records(self._starts[self.group_id])
            if word == "current"
        ]
        value = [each.value for each in records if each.key.member_id == member_id][-1]
        names = {of_broker: name for name, of_broker in self._ids.items()}
        pending = {
            names[bytes(each.topic_id)]: sorted(each.partitions)
            for each in value.partitions_pending_revocation
        }
        epoch = self._translated(value, out=False).member_epoch
        return MemberView(MemberState(value.state).name, epoch, pending)

    def member_ids(self) -> list[str]:
        return sorted(each.member_id for each in self._described().members)

    def committed(self, topic: str, partition: int) -> int | None:
        [found] = self.offsets({topic: [partition]}).values()
        return None if found == -1 else found


def _needs_id(request: Any) -> bool:
    """Return whether the broker answers a JoinGroup at once with a member id."""
    return (
        isinstance(request, m.JoinGroupRequest)
        and not request.member_id
        and request.group_instance_id is None
    )


def _has_data(wire: WireClient) -> bool:
    return bool(select.select([wire.socket], [], [], 0)[0])
