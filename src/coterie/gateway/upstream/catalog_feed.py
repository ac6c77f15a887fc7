"""Copy the topics of the upstream cluster into the catalog, and keep them up to date.

Every period one Metadata request lists all topics. A response with the same bytes as
the one before changes nothing and is not decoded. Otherwise entries of the catalog are
staged for what differs, so that watchers of the catalog see creations, new partitions,
changed racks and deletions as they do in the embedded server.

The deletion of a topic deletes committed offsets, so no single response decides it: a
broker may be out of date, and a principal without DESCRIBE does not see a topic. A
topic is deleted, or deleted and created again, only when every broker of a response
answers a request for its name without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from coterie.broker import Catalog, DataPlane, Entry, EntryKind, Topic
from coterie.client import Cluster
from coterie.client.connection import ELEMENTS_MAX, Undecoded
from coterie.errors import ApiError, ClientError, ConnectionLost
from coterie.gateway.path.addresses import UpstreamBroker
from coterie.gateway.upstream.poller import POLL_MS, Poller, digest_of
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, ZERO_UUID, Versions

_LOGGER = logging.getLogger(__name__)

METADATA: Final = Versions(12, VERSION_MAX)
"""The versions of Metadata from Kafka 3.1 on, with ids of topics in both directions."""
_SLICE_PARTITIONS: Final = 2_000
"""The partitions that are staged between two turns of the event loop."""
_NAMES_PER_REQUEST: Final = 500


class Listing(NamedTuple):
    """A decoded Metadata response: the live brokers, their racks, and the topics."""

    cluster_id: str | None
    brokers: tuple[UpstreamBroker, ...]
    racks: Mapping[int, str]
    topics: Mapping[TopicName, Topic]
    """A topic with an error has no partitions."""
    replicas: frozenset[int]
    """The ids of all replicas, which are those of brokers that are down as well."""


def read_listing(
    response: m.MetadataResponse, known_racks: Mapping[int, str]
) -> Listing:
    """Return the listing of a response for all topics.

    `known_racks` has the racks of brokers in earlier responses. A broker that is down
    is not in the response, and its replicas keep their rack: otherwise every restart of
    a broker would rebalance all groups.

    Raises ApiError for an error of the whole response, and ConnectionLost when it lists
    no brokers: such a broker has no metadata yet.
    """
    if response.error_code:
        raise ApiError(ErrorCode.read(response.error_code), "Metadata")
    if not response.brokers:
        raise ConnectionLost("upstream listed no brokers: it has no metadata yet")
    racks = dict(known_racks)
    for broker in response.brokers:
        if broker.rack:
            racks[broker.node_id] = broker.rack
        else:
            racks.pop(broker.node_id, None)
    shared: dict[tuple[int, ...], frozenset[str]] = {}
    return Listing(
        response.cluster_id,
        tuple(
            UpstreamBroker(broker.node_id, broker.host, broker.port)
            for broker in response.brokers
        ),
        racks,
        {
            topic.name: _read_topic(topic.name, topic, racks, shared)
            for topic in response.topics
            if topic.name
        },
        frozenset(
            replica
            for topic in response.topics
            for partition in topic.partitions
            for replica in partition.replica_nodes
        ),
    )


def _read_topic(
    name: TopicName,
    topic: m.MetadataResponseTopic,
    racks: Mapping[int, str],
    shared: dict[tuple[int, ...], frozenset[str]],
) -> Topic:
    """Return a topic. Partitions with errors count, too: their leaders are offline.

    `shared` has a set of racks for each list of replicas.
    """
    if topic.error_code or not topic.partitions:
        return Topic(name, topic.topic_id, 0)
    replicas = {each.partition_index: each.replica_nodes for each in topic.partitions}
    count = max(replicas) + 1
    of_partitions: list[frozenset[str]] = []
    for index in range(count) if racks else ():
        key = tuple(replicas.get(index, ()))
        found = shared.get(key)
        if found is None:
            found = frozenset(racks[each] for each in key if each in racks)
            shared[key] = found
        of_partitions.append(found)
    factor = len(replicas.get(0, ())) or 1
    known = tuple(of_partitions) if any(of_partitions) else ()
    return Topic(name, topic.topic_id, count, factor, racks=known)


class CatalogFeed(Poller):
    """The copy of upstream's topics in a catalog. `start` polls once, then regularly.

    `cluster_id` is the id that upstream must keep. Entries are staged in `data`.
    """

    def __init__(
        self,
        cluster: Cluster,
        data: DataPlane,
        *,
        cluster_id: str,
        poll_ms: int = POLL_MS,
    ) -> None:
        super().__init__(poll_ms, "the topics of upstream")
        self._cluster = cluster
        self._data = data
        self._catalog: Catalog = data.catalog
        self._cluster_id = cluster_id
        self._racks: Mapping[int, str] = {}
        self._digest = b""
        self.on_brokers: Callable[[Listing], None] | None = None
        """Called with the brokers after each change of the topics or the brokers."""

    async def start(self) -> None:
        """Copy all topics, and go on with it in the background.

        Raises the errors of the client when upstream cannot be reached.
        """
        await self._cluster.retrying(self.poll)
        self._catalog.on_unknown_topic = self.want
        self.repeat()

    async def close(self) -> None:
        """End the background work."""
        self._catalog.on_unknown_topic = None
        await super().close()

    async def poll(self) -> None:
        """Copy all topics. A failure has applied some changes, and never a deletion
        that is not certain."""
        connection = await self._cluster.connection()
        request = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        received = await connection.call_undecoded(request, wanted=METADATA)
        digest = digest_of(received)
        if digest != self._digest:
            listing = await asyncio.to_thread(_decode, received, self._racks)
            self._check_cluster(listing.cluster_id)
            self._racks = listing.racks
            if self.on_brokers is not None:
                self.on_brokers(listing)
            suspects = await self._apply(listing.topics)
            # Brokers that disagree may agree later, with the same bytes.
            is_settled = await self._delete(suspects, listing)
            self._digest = digest if is_settled else b""

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise ClientError(
                f"upstream is cluster {cluster_id} now, and was {self._cluster_id}: "
                "check the addresses of --upstream"
            )

    # Differences.

    async def _apply(self, listed: Mapping[TopicName, Topic]) -> list[Topic]:
        """Stage the topics that are new or have grown; return those of the catalog that
        seem to be gone."""
        known = self._catalog.topics
        gone = [topic for name, topic in known.items() if name not in listed]
        size = 0
        for name, found in listed.items():
            before = known.get(name)
            if before is not None and self._is_gone(before, found):
                gone.append(before)
            # A response with fewer partitions is older than the catalog.
            elif found != before and (
                found.partition_count >= (before.partition_count if before else 1)
            ):
                self._data.stage([Entry(EntryKind.TOPIC, name, found.to_value())])
                size += found.partition_count
            size += 1
            if size >= _SLICE_PARTITIONS:
                size = 0
                await asyncio.sleep(0)
        await self._written()
        return gone

    def _is_gone(self, known: Topic, found: Topic | None) -> bool:
        """Return whether a response shows that a topic does not exist any more."""
        if found is None:
            return True
        if not found.partition_count:
            return False  # an error of the topic
        return found.topic_id != known.topic_id

    async def _written(self) -> None:
        """Wait until the log in memory has what is staged."""
        written = asyncio.Event()
        self._data.when_durable(lambda _: written.set())
        await written.wait()

    # Deletions.

    async def _delete(self, suspects: Collection[Topic], listing: Listing) -> bool:
        """Delete those topics that no broker knows, and create their successors. Return
        whether those were all.

        Raises the errors of the client when a broker does not answer; the next poll
        repeats this.
        """
        certain = {topic.name: topic for topic in suspects}
        if not certain:
            return True
        for broker in listing.brokers:
            wanted = list(certain)
            for at in range(0, len(wanted), _NAMES_PER_REQUEST):
                names = wanted[at : at + _NAMES_PER_REQUEST]
                answers = await self._described(broker.broker_id, names)
                for name in names:
                    if not self._is_gone(certain[name], answers[name]):
                        del certain[name]
        for count, name in enumerate(certain):
            self._data.stage([Entry(EntryKind.TOPIC, name, None)])
            _LOGGER.info("topic %s was deleted upstream", name)
            if count % _NAMES_PER_REQUEST == 0:
                await asyncio.sleep(0)
        await self._apply(listing.topics)
        return len(certain) == len(suspects)

    async def _described(
        self, broker: int, names: Collection[TopicName]
    ) -> dict[TopicName, Topic | None]:
        """Return topics as one broker describes them; None for those that it does not
        have. A topic with another error has no partitions."""
        topics = [
            m.MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in names
        ]
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._cluster.call(
            request, m.MetadataResponse, node_id=broker, wanted=METADATA
        )
        unknown = {
            topic.name
            for topic in response.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        listing = read_listing(response, self._racks)
        self._check_cluster(listing.cluster_id)
        if missing := set(names) - listing.topics.keys():
            raise ConnectionLost(f"broker {broker} omitted topic {min(missing)}")
        return {
            name: None if name in unknown else listing.topics[name] for name in names
        }


def _decode(received: Undecoded, racks: Mapping[int, str]) -> Listing:
    """Decode a response, in another thread than the event loop's."""
    frame, at, version = received
    response, _ = decode(m.MetadataResponse, version, frame, at, ELEMENTS_MAX)
    return read_listing(response, racks)
