"""Responses of upstream brokers with the addresses and versions of the gateway.

A rewritten response is decoded only as far as needed: those of Metadata and
DescribeTopicPartitions can have 100,000 partitions, which stay as they are.

Rewritten are ApiVersions, Metadata, DescribeCluster, FindCoordinator, ListGroups of
brokers, the internal topic in DescribeTopicPartitions, and the addresses in responses
of Produce and Fetch (KIP-951).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar

from coterie.broker import Connections
from coterie.errors import MalformedFrame
from coterie.gateway.path.addresses import Addresses, UpstreamBroker
from coterie.gateway.path.fetch_responses import LEADERS_SINCE, FetchRewrite
from coterie.wire import messages as m
from coterie.wire.api import IMPLEMENTED, PRIVATE, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    SIZE_BYTES,
    frame_of,
    read_client_id,
    read_response,
    write_response,
)
from coterie.wire.primitives import write_uvarint
from coterie.wire.schema import NO_VERSIONS, Message, Versions
from coterie.wire.struct_array import StructArray

M = TypeVar("M", bound=Message)

Rewrite: TypeAlias = Callable[[bytes], bytes]
"""A function from a response's frame to the frame for the client."""

REFUSED: Final[frozenset[int]] = frozenset({*range(76, 80), *range(88, 93)})
"""The APIs of share groups (KIP-932) and streams groups (KIP-1071). Their clients look
up the coordinator as that of a group, which is here, and commit offsets with the APIs
that are served here. Without these APIs they fail with a clear error."""
_HIDDEN_FEATURES: Final = frozenset({"share.version", "streams.version"})
_GROUP_FEATURE: Final = "group.version"
_GROUP_VERSIONS: Final = Versions(0, 1)
_LEVEL_ZERO_SINCE: Final = 4
_FEATURES_SINCE: Final = 3
_API_VERSIONS: Final = Versions(0, 4)
_ENDPOINTS_SINCE: Final = 10
_THROTTLE_SINCE: Final = 3
_TOPIC_IDS_SINCE: Final = 10
_MANY_KEYS_SINCE: Final = 4
KEYS_MAX: Final = 50_000
"""The coordinators that one request may ask for. The response has 15 times the bytes of
short keys, and is decoded and encoded in the event loop, which has a lease to renew."""
_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_FORWARDED_TYPES: Final = frozenset({"share", "streams"})
_UNSUPPORTED: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16

FIRST_UNKNOWN_ID: Final = 500_000_000
"""The smallest id that Metadata does not have: between those of brokers and of gateway
nodes."""
_UNKNOWN_IDS: Final = 500_000_000
MOVED_WITHIN_S: Final = 300.0
"""How long after a change of its address a broker has two ids. librdkafka requests the
coordinator when it fails to connect, which it tries about every ten seconds."""
ALTERNATING_MAX: Final = 10_000

CAPS: Final[Mapping[int, Versions]] = {
    ApiKey.API_VERSIONS: _API_VERSIONS,
    ApiKey.PRODUCE: Versions(0, 13),
    ApiKey.FETCH: Versions(0, 18),
    ApiKey.METADATA: Versions(0, 13),
    ApiKey.DESCRIBE_CLUSTER: Versions(0, 2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0),
    ApiKey.FIND_COORDINATOR: Versions(0, 6),
    ApiKey.LIST_GROUPS: Versions(0, 5),
}
"""The versions of forwarded APIs whose responses can be rewritten."""


class CoordinatorIds:
    """The node ids of transaction coordinators in the responses of one node.

    The coordinator of a transactional id is a broker upstream, whose id stays the same
    when its port on another gateway node is advertised. librdkafka keeps the address of
    a transaction coordinator as long as FindCoordinator returns the same id
    (`rd_kafka_txn_coord_set`), so it goes on connecting to a gateway node that is dead.
    An unknown id makes it forget the coordinator, request Metadata, which has the
    address, and request FindCoordinator again after 500 ms. kgo requests Metadata, too;
    Kafka's Java client connects to the address in the response, whatever the id is.

    So after the address of a broker has changed, every second response for a
    transactional id has an unknown id. Once is not enough: Metadata may be received
    after the next response of FindCoordinator.
    """

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._keys: set[str] = set()
        """The transactional ids whose last response had an unknown id."""

    def node_id(self, key: str, broker_id: int) -> int:
        """Return the node id for the next response for a transactional id.

        `broker_id` is the coordinator, of which the address was advertised.
        """
        if key in self._keys:
            self._keys.remove(key)
            return broker_id
        if not self._addresses.has_moved(broker_id, MOVED_WITHIN_S):
            return broker_id
        if len(self._keys) >= ALTERNATING_MAX:
            self._keys.clear()  # they only get one more unknown id
        self._keys.add(key)
        # One for each broker: Kafka's Java client keeps a connection by the id.
        return FIRST_UNKNOWN_ID + broker_id % _UNKNOWN_IDS


class Rewriting:
    """The functions that rewrite responses, by API and version.

    A coordination port lists the groups of the gateway; the port of a broker lists the
    share and streams groups of that broker, so that no group is listed twice. `topic`
    is the gateway's own topic, which is reported as internal.
    """

    def __init__(
        self,
        addresses: Addresses,
        connections: Connections,
        *,
        topic: str,
        is_coordination: bool,
    ) -> None:
        self._addresses = addresses
        self._ids = CoordinatorIds(addresses)
        self._topic = topic
        # The oldest that was seen: during an upgrade, newer brokers have it as well.
        self._upstream_groups = CAPS[ApiKey.LIST_GROUPS].high
        own = dict.fromkeys(connections.handlers)
        if not is_coordination:
            own.pop(ApiKey.LIST_GROUPS, None)
        own.pop(ApiKey.FIND_COORDINATOR, None)
        if not connections.settings.group_consumer_client_assignors_enable:
            for key in PRIVATE:
                own.pop(key, None)
        self._own = {key: IMPLEMENTED[ApiKey(key)] for key in own}
        protocols = connections.settings.group_coordinator_rebalance_protocols
        self._has_consumer_groups = "consumer" in protocols
        self._rewriters: dict[int, Callable[[int, bytes], bytes]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._describe_topic_partitions,
            ApiKey.LIST_GROUPS: self._list_groups,
            ApiKey.PRODUCE: self._produce,
        }
        self._of: dict[tuple[int, int], Rewrite | None] = {}

    def of(self, key: int, version: int) -> Rewrite | None:
        """Return the function for responses of an API in `CAPS`; None for those that
        are forwarded.

        Raises MalformedFrame for an API or a version that is not served.
        """
        try:
            return self._of[key, version]
        except KeyError:
            if version not in CAPS.get(key, NO_VERSIONS):
                reason = f"the API key {key} v{version} is not served"
                raise MalformedFrame(reason) from None
        rewriter = self._rewriters.get(key)
        rewrite: Rewrite | None = None
        if key == ApiKey.FETCH and version >= LEADERS_SINCE:
            rewrite = FetchRewrite(version, self._replace_leaders)
        if rewriter is not None and not (
            key == ApiKey.PRODUCE and version < _ENDPOINTS_SINCE
        ):
            rewrite = partial(_rewrite_body, key, version, rewriter)
        self._of[key, version] = rewrite
        return rewrite

    def is_newer(self, key: int, version: int) -> bool:
        """Return whether a request has a version of ListGroups that is served and that
        upstream does not have."""
        return key == ApiKey.LIST_GROUPS and (
            self._upstream_groups < version <= CAPS[ApiKey.LIST_GROUPS].high
        )

    def of_coordinators(self, frame: bytes) -> Rewrite | None:
        """Return the function for the response to a FindCoordinator request, from its
        frame with the size; None for a request for groups.

        Raises MalformedFrame.
        """
        version = int.from_bytes(frame[SIZE_BYTES + 2 : SIZE_BYTES + 4], signed=True)
        if version not in CAPS[ApiKey.FIND_COORDINATOR]:
            raise MalformedFrame(f"FindCoordinator v{version} is not served")
        payload = frame[SIZE_BYTES:]
        flexible = version in m.FindCoordinatorRequest.FLEXIBLE
        _, at = read_client_id(payload, flexible=flexible)
        request, _ = decode(m.FindCoordinatorRequest, version, payload, at, KEYS_MAX)
        if request.key_type == _GROUP_KEY:
            return None
        rewriter = partial(self._find_coordinator, request)
        return partial(_rewrite_body, ApiKey.FIND_COORDINATOR, version, rewriter)

    def own_response(self, key: int, version: int, correlation_id: int) -> bytes | None:
        """Return the response to a request that upstream cannot read; None for others.

        ApiVersions is refused in version 0, with the versions to request instead
        (G1-03). A newer ListGroups finds no group: of those that are listed on the port
        of a broker, older upstreams have none.
        """
        if key == ApiKey.LIST_GROUPS and self.is_newer(key, version):
            body = encode(m.ListGroupsResponse(), version)
            tagged = version in m.ListGroupsResponse.FLEXIBLE
            return write_response(correlation_id, body, tagged=tagged)
        if key != ApiKey.API_VERSIONS or version in _API_VERSIONS:
            return None
        low, high = _API_VERSIONS
        mine = m.ApiVersion(
            api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high
        )
        refusal = m.ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[mine]
        )
        return write_response(correlation_id, encode(refusal, 0), tagged=False)

    # The responses. Each function takes the version and a body, and returns a body.

    def _api_versions(self, version: int, body: bytes) -> bytes:
        """Return upstream's versions as far as they can be rewritten, ours for groups,
        and upstream's features, except that group.version is ours."""
        if body.startswith(_UNSUPPORTED):
            refusal = _decoded(m.ApiVersionsResponse, 0, body)
            refusal.api_keys = [
                each
                for each in map(_capped, refusal.api_keys)
                if each.api_key == ApiKey.API_VERSIONS
            ]
            return encode(refusal, 0)
        response = _decoded(m.ApiVersionsResponse, version, body)
        if response.error_code:
            return body
        own = self._own
        upstream = [
            each
            for each in map(self._served, response.api_keys)
            if each.api_key not in own
            and each.api_key not in REFUSED
            and each.min_version <= each.max_version
        ]
        ours = [
            m.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in own.items()
        ]
        response.api_keys = sorted(upstream + ours, key=lambda each: each.api_key)
        if version >= _FEATURES_SINCE:
            self._set_features(version, response)
        return encode(response, version)

    def _served(self, each: m.ApiVersion) -> m.ApiVersion:
        """Return the versions of an API that can be rewritten, or are served in front
        of an older upstream."""
        served = _capped(each)
        if each.api_key == ApiKey.LIST_GROUPS:
            oldest = min(self._upstream_groups, served.max_version)
            self._upstream_groups = oldest
            served.max_version = CAPS[ApiKey.LIST_GROUPS].high
        return served

    def _set_features(self, version: int, response: m.ApiVersionsResponse) -> None:
        hidden = _HIDDEN_FEATURES | {_GROUP_FEATURE}
        supported = [e for e in response.supported_features if e.name not in hidden]
        finalized = [e for e in response.finalized_features if e.name not in hidden]
        low, high = _GROUP_VERSIONS
        # Clients before v4 fail on a feature whose lowest level is 0 (KAFKA-17011).
        if version >= _LEVEL_ZERO_SINCE:
            supported.append(
                m.SupportedFeatureKey(
                    name=_GROUP_FEATURE, min_version=low, max_version=high
                )
            )
        if self._has_consumer_groups:
            finalized.append(
                m.FinalizedFeatureKey(
                    name=_GROUP_FEATURE, min_version_level=high, max_version_level=high
                )
            )
        response.supported_features = supported
        response.finalized_features = finalized
        epoch = response.finalized_features_epoch
        response.finalized_features_epoch = max(epoch, 0)

    def _metadata(self, version: int, body: bytes) -> bytes:
        """Replace the brokers and leave the topics as they are."""
        begin = _INT32.size if version >= _THROTTLE_SINCE else 0
        brokers, end = _brokers(version).decode(body, begin)
        self._learn((each.node_id, each.host, each.port) for each in brokers)
        for each in brokers:
            each.host, each.port = self._addresses.advertised(each.node_id)
        brokers += self._nodes(brokers)
        rest = self._mark_internal(
            body[end:],
            is_compact=version in m.MetadataResponse.FLEXIBLE,
            gap=_UUID_BYTES if version >= _TOPIC_IDS_SINCE else 0,
        )
        if version == 0:  # without is_internal
            rest = body[end:]
        return body[:begin] + _brokers(version).encode(brokers) + rest

    def _nodes(
        self, brokers: Sequence[m.MetadataResponseBroker]
    ) -> list[m.MetadataResponseBroker]:
        """Return the nodes of the gateway, and those that have left not long ago.

        librdkafka drops a broker that Metadata does not list, and then waits for a
        connection to it when it was the coordinator of a group that
        `send_offsets_to_transaction` has looked up before (librdkafka#5511). So the id
        of a node that has left gets the port of a broker, at a live node, where the
        response is NOT_COORDINATOR. The port of a broker lists none of the gateway's
        groups, so that none is listed twice.
        """
        nodes = [
            m.MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port
            )
            for node in self._addresses.nodes
        ]
        if brokers:
            for node_id in self._addresses.former_ids:
                broker = brokers[node_id % len(brokers)]
                nodes.append(
                    m.MetadataResponseBroker(
                        node_id=node_id, host=broker.host, port=broker.port
                    )
                )
        return nodes

    def _describe_cluster(self, version: int, body: bytes) -> bytes:
        response = _decoded(m.DescribeClusterResponse, version, body)
        if response.error_code or response.endpoint_type != 1:
            return body
        brokers = response.brokers
        self._learn((each.broker_id, each.host, each.port) for each in brokers)
        for each in brokers:
            each.host, each.port = self._addresses.advertised(each.broker_id)
        brokers += [
            m.DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port
            )
            for node in self._addresses.nodes
        ]
        return encode(response, version)

    def _describe_topic_partitions(self, version: int, body: bytes) -> bytes:
        del version
        return self._mark_internal(body, is_compact=True, gap=_UUID_BYTES)

    def _find_coordinator(
        self, request: m.FindCoordinatorRequest, version: int, body: bytes
    ) -> bytes:
        """Replace the addresses of upstream's coordinators."""
        response = _decoded(m.FindCoordinatorResponse, version, body)
        found: list[tuple[str, Any]] = [(request.key, response)]
        if version >= _MANY_KEYS_SINCE:
            found = [(each.key, each) for each in response.coordinators]
        for key, each in found:
            if not each.error_code:
                self._learn([(each.node_id, each.host, each.port)])
                each.host, each.port = self._addresses.advertised(each.node_id)
                if request.key_type == _TRANSACTION_KEY:
                    each.node_id = self._ids.node_id(key, each.node_id)
        return encode(response, version)

    def _list_groups(self, version: int, body: bytes) -> bytes:
        """Leave out the groups that the gateway coordinates instead of upstream."""
        response = _decoded(m.ListGroupsResponse, version, body)
        response.groups = [
            each for each in response.groups if each.protocol_type in _FORWARDED_TYPES
        ]
        return encode(response, version)

    def _produce(self, version: int, body: bytes) -> bytes:
        response = _decoded(m.ProduceResponse, version, body)
        if not response.node_endpoints:
            return body
        self._replace_leaders(response.node_endpoints)
        return encode(response, version)

    def _replace_leaders(self, leaders: list[m.NodeEndpoint]) -> None:
        """Replace the addresses of leaders that have moved (KIP-951)."""
        self._learn((each.node_id, each.host, each.port) for each in leaders)
        for each in leaders:
            each.host, each.port = self._addresses.advertised(each.node_id)

    def _learn(self, brokers: Iterable[tuple[int, str, int]]) -> None:
        """Store the addresses of brokers. Raises MalformedFrame for a negative id."""
        known = [UpstreamBroker(*each) for each in brokers]
        for each in known:
            if each.broker_id < 0:
                raise MalformedFrame(f"upstream has a broker with id {each.broker_id}")
        self._addresses.learn(known)

    def _mark_internal(self, topics: bytes, *, is_compact: bool, gap: int) -> bytes:
        """Set `is_internal` of the gateway's own topic.

        Its name with its length is searched for, as only names of topics are strings
        there. Between the name and the flag are `gap` bytes. In the cursor at the end
        of DescribeTopicPartitions the name has no flag.
        """
        name = self._topic.encode()
        size = write_uvarint(len(name) + 1) if is_compact else _int16(len(name))
        at = topics.find(size + name)
        if at < 0:
            return topics
        at += len(size) + len(name) + gap
        if at >= len(topics):
            return topics
        return topics[:at] + b"\1" + topics[at + 1 :]


def _rewrite_body(
    key: int, version: int, rewriter: Callable[[int, bytes], bytes], frame: bytes
) -> bytes:
    payload = frame[SIZE_BYTES:]
    tagged = (
        key != ApiKey.API_VERSIONS and version in api_of(ApiKey(key)).response.FLEXIBLE
    )
    _, at = read_response(payload, tagged=tagged)
    body = payload[at:]
    rewritten = rewriter(version, body)
    return frame if rewritten is body else frame_of(payload[:at] + rewritten)


def _decoded(cls: type[M], version: int, body: bytes) -> M:
    return decode(cls, version, body)[0]


def _capped(each: m.ApiVersion) -> m.ApiVersion:
    """Return the versions of an API that can be rewritten."""
    cap = CAPS.get(each.api_key)
    if cap is None:
        return each
    return m.ApiVersion(
        api_key=each.api_key,
        min_version=max(each.min_version, cap.low),
        max_version=min(each.max_version, cap.high),
    )


def _int16(value: int) -> bytes:
    return value.to_bytes(2, "big")


@cache
def _brokers(version: int) -> StructArray[m.MetadataResponseBroker]:
    flexible = version in m.MetadataResponse.FLEXIBLE
    return StructArray(m.MetadataResponseBroker, version, flexible=flexible)
