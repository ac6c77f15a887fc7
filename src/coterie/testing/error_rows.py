"""Where Apache Kafka puts the error codes in the responses of each API.

`ROWS` declares the rows of a response that carry a code: those of a topic, a partition,
a group or a resource. `shape_of` decides between them and the top level. Where a
version has a field at both, Kafka's handlers decide: `KafkaApis`, `ReplicaManager`,
`OffsetMetadataManager`, `GroupMetadataManager`, `ScramImage`, `KafkaRaftClient` and
`ReplicationControlManager` put the codes of `_IN_ROWS` into a row and leave the top
level empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, Versions

_ALL: Final = Versions(0, VERSION_MAX)


class Rows(NamedTuple):
    """An array of a response that has one row for each element of a request's array.

    `fields` are copied: "name", "partition_index=partition" for a field with another
    name in the request, or "group_id=*" for the element itself. `values` are constants
    that differ from the schema's defaults. `error` is the field of the code, "" if it
    stands in `nested` only. `versions` have the rows.
    """

    response: str
    request: str
    fields: str
    nested: Rows | None = None
    values: Mapping[str, Any] = {}
    error: str = "error_code"
    versions: Versions = _ALL

    @property
    def kind(self) -> str:
        """What the rows are: "topic", "group", "member", "transactional_id", "key" of
        FindCoordinator, "resource" of a configuration, or "" for others."""
        return _KINDS.get(copied_fields(self.fields)[0][0], "") if self.fields else ""


_KINDS: Final = {
    "name": "topic",
    "topic": "topic",
    "topic_name": "topic",
    "group_id": "group",
    "member_id": "member",
    "transactional_id": "transactional_id",
    "key": "key",
    "resource_type": "resource",
}


@cache
def copied_fields(fields: str) -> tuple[tuple[str, str], ...]:
    """Parse `Rows.fields` to pairs of the response's and the request's field."""
    pairs = (each.partition("=") for each in fields.split())
    return tuple((name, source or name) for name, _, source in pairs)


_TOPIC: Final = "name topic_id"
_ADDED_PARTITIONS: Final = Rows(
    "results_by_partition",
    "partitions",
    "partition_index=*",
    error="partition_error_code",
)
_FETCHED_PARTITIONS: Final = Rows(
    "partitions",
    "partitions",
    "partition_index=partition",
    values={"high_watermark": -1, "records": b""},
)
_FETCHED_OFFSETS: Final = Rows(
    "partitions",
    "partition_indexes",
    "partition_index=*",
    values={"committed_offset": -1},
)
_RESOURCE: Final = "resource_type resource_name"
_BY_INDEX: Final = Rows("partitions", "partitions", "partition_index")
_ALL_BY_INDEX: Final = Rows("partitions", "partition_indexes", "partition_index=*")
_BY_ID: Final = Rows("partition_result", "partitions", "partition_id=*")
_TOPICS: Final = Rows("topics", "topics", "name")
_TOPIC_PARTITIONS: Final = Rows("topics", "topics", "name", _BY_INDEX)

ROWS: Final[Mapping[ApiKey, tuple[Rows, ...]]] = {
    ApiKey.PRODUCE: (
        Rows(
            "responses",
            "topic_data",
            _TOPIC,
            Rows(
                "partition_responses",
                "partition_data",
                "index",
                values={"base_offset": -1},
            ),
        ),
    ),
    ApiKey.FETCH: (
        Rows(
            "responses",
            "topics",
            "topic topic_id",
            _FETCHED_PARTITIONS,
            versions=Versions(4, 12),
        ),
    ),
    ApiKey.LIST_OFFSETS: (_TOPIC_PARTITIONS,),
    # Metadata and DescribeTopicPartitions: an empty name instead of null.
    ApiKey.METADATA: (Rows("topics", "topics", _TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_TOPICS,),
    ApiKey.OFFSET_COMMIT: (Rows("topics", "topics", _TOPIC, _BY_INDEX),),
    ApiKey.TXN_OFFSET_COMMIT: (_TOPIC_PARTITIONS,),
    ApiKey.OFFSET_FETCH: (
        Rows(
            "topics",
            "topics",
            "name",
            _FETCHED_OFFSETS,
            versions=Versions(1, 1),
        ),
        Rows("groups", "groups", "group_id", versions=Versions(8, VERSION_MAX)),
    ),
    ApiKey.FIND_COORDINATOR: (
        Rows(
            "coordinators",
            "coordinator_keys",
            "key=*",
            values={"node_id": -1, "port": -1},
        ),
    ),
    ApiKey.DESCRIBE_GROUPS: (Rows("groups", "groups", "group_id=*"),),
    ApiKey.DELETE_GROUPS: (Rows("results", "groups_names", "group_id=*"),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Rows("groups", "group_ids", "group_id=*"),),
    ApiKey.SHARE_GROUP_DESCRIBE: (Rows("groups", "group_ids", "group_id=*"),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (Rows("groups", "groups", "group_id"),),
    ApiKey.CREATE_TOPICS: (_TOPICS,),
    ApiKey.DELETE_TOPICS: (
        Rows("responses", "topics", _TOPIC, versions=Versions(6, VERSION_MAX)),
        Rows("responses", "topic_names", "name=*", versions=Versions(1, 5)),
    ),
    ApiKey.CREATE_PARTITIONS: (Rows("results", "topics", "name"),),
    ApiKey.DELETE_RECORDS: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows(
                "partitions",
                "partitions",
                "partition_index",
                values={"low_watermark": -1},
            ),
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Rows(
            "topics", "topics", "topic", Rows("partitions", "partitions", "partition")
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Rows(
            "results_by_topic_v3_and_below",
            "v3_and_below_topics",
            "name",
            _ADDED_PARTITIONS,
        ),
    ),
    ApiKey.CREATE_ACLS: (Rows("results", "creations", ""),),
    ApiKey.DELETE_ACLS: (Rows("filter_results", "filters", ""),),
    ApiKey.DESCRIBE_CONFIGS: (Rows("results", "resources", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (Rows("responses", "resources", _RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (Rows("responses", "resources", _RESOURCE),),
    ApiKey.ELECT_LEADERS: (
        Rows(
            "replica_election_results",
            "topic_partitions",
            "topic",
            _BY_ID,
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Rows("responses", "topics", "name", _BY_INDEX),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        Rows("topics", "topics", "name", _ALL_BY_INDEX),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        Rows(
            "entries",
            "entries",
            "",
            Rows("entity", "entity", "entity_type entity_name"),
        ),
    ),
    # Kafka names no user in these rows.
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (Rows("results", "users", ""),),
    ApiKey.DESCRIBE_PRODUCERS: (Rows("topics", "topics", "name", _ALL_BY_INDEX),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Rows("transaction_states", "transactional_ids", "transactional_id=*"),
    ),
}


class _InRows(NamedTuple):
    """Codes that stand in these rows, although the response has a top level too."""

    codes: frozenset[ErrorCode]
    rows: Rows


def _codes(*names: str) -> frozenset[ErrorCode]:
    return frozenset(ErrorCode[name] for name in names)


FETCH_SESSION: Final = _codes(
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "FETCH_SESSION_TOPIC_ID_ERROR",
)
"""The codes at the top level of a Fetch response without any partition (Kafka's
`SessionErrorContext`)."""
_SESSIONS_SINCE: Final = 7

OF_PARTITIONS: Final = _codes(
    "LEADER_NOT_AVAILABLE", "LISTENER_NOT_FOUND", "REPLICA_NOT_AVAILABLE"
)
"""The codes of Metadata that stand in the rows of partitions (Kafka's
`KRaftMetadataCache.getPartitionMetadata`)."""

_OFFSETS_OF_TOPICS: Final = _codes(
    "UNSTABLE_OFFSET_COMMIT",
    "TOPIC_AUTHORIZATION_FAILED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
)

_OF_FETCHED: Final = _codes(
    "UNKNOWN_SERVER_ERROR",
    "OFFSET_OUT_OF_RANGE",
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REPLICA_NOT_AVAILABLE",
    "TOPIC_AUTHORIZATION_FAILED",
    "KAFKA_STORAGE_ERROR",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "OFFSET_MOVED_TO_TIERED_STORAGE",
)
"""The codes of one partition in a Fetch response."""

_OF_ACKNOWLEDGED: Final = _codes(
    "INVALID_RECORD_STATE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "TOPIC_AUTHORIZATION_FAILED",
    "NOT_LEADER_OR_FOLLOWER",
    "FENCED_LEADER_EPOCH",
    "FENCED_STATE_EPOCH",
    "KAFKA_STORAGE_ERROR",
)
"""The codes of one partition in a ShareAcknowledge response."""
_REFUSED: Final = _codes("INVALID_RECORD_STATE")
_SHARED_TOPIC: Final = ("responses", "topics", "topic_id")

_IN_ROWS: Final[Mapping[ApiKey, tuple[_InRows, ...]]] = {
    ApiKey.FETCH: (
        _InRows(
            _OF_FETCHED,
            Rows("responses", "topics", "topic topic_id", _FETCHED_PARTITIONS),
        ),
    ),
    ApiKey.SHARE_FETCH: (
        _InRows(
            _REFUSED,
            Rows(*_SHARED_TOPIC, _BY_INDEX._replace(error="acknowledge_error_code")),
        ),
        _InRows(_OF_ACKNOWLEDGED - _REFUSED, Rows(*_SHARED_TOPIC, _BY_INDEX)),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: (
        _InRows(_OF_ACKNOWLEDGED, Rows(*_SHARED_TOPIC, _BY_INDEX)),
    ),
    ApiKey.METADATA: (
        _InRows(
            _codes(
                "UNKNOWN_TOPIC_OR_PARTITION",
                "INVALID_TOPIC_EXCEPTION",
                "TOPIC_AUTHORIZATION_FAILED",
                "INVALID_REPLICATION_FACTOR",
                "UNKNOWN_TOPIC_ID",
            )
            | OF_PARTITIONS,
            Rows("topics", "topics", _TOPIC),
        ),
    ),
    ApiKey.OFFSET_FETCH: (
        _InRows(
            _OFFSETS_OF_TOPICS,
            Rows("topics", "topics", "name", _FETCHED_OFFSETS, versions=Versions(1, 7)),
        ),
        _InRows(
            _OFFSETS_OF_TOPICS,
            Rows(
                "groups",
                "groups",
                "group_id",
                Rows("topics", "topics", _TOPIC, _FETCHED_OFFSETS),
                error="",
                versions=Versions(8, VERSION_MAX),
            ),
        ),
    ),
    # A group that does not exist is an error of the top level, too; a member that left
    # or was fenced meanwhile stands in its row.
    ApiKey.LEAVE_GROUP: (
        _InRows(
            _codes("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"),
            Rows(
                "members",
                "members",
                "member_id group_instance_id",
                versions=Versions(3, VERSION_MAX),
            ),
        ),
    ),
    ApiKey.OFFSET_DELETE: (
        _InRows(
            _codes(
                "TOPIC_AUTHORIZATION_FAILED",
                "UNKNOWN_TOPIC_OR_PARTITION",
                "GROUP_SUBSCRIBED_TO_TOPIC",
            ),
            _TOPIC_PARTITIONS,
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _InRows(
            frozenset(ErrorCode) - _codes("CLUSTER_AUTHORIZATION_FAILED"),
            Rows(
                "results_by_transaction",
                "transactions",
                "transactional_id",
                Rows("topic_results", "topics", "name", _ADDED_PARTITIONS),
                versions=Versions(4, VERSION_MAX),
            ),
        ),
    ),
    ApiKey.ELECT_LEADERS: (
        _InRows(
            _codes(
                "UNKNOWN_TOPIC_OR_PARTITION",
                "PREFERRED_LEADER_NOT_AVAILABLE",
                "ELIGIBLE_LEADERS_NOT_AVAILABLE",
                "ELECTION_NOT_NEEDED",
            ),
            Rows("replica_election_results", "topic_partitions", "topic", _BY_ID),
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        _InRows(
            _codes(
                "UNKNOWN_TOPIC_OR_PARTITION",
                "INVALID_REPLICA_ASSIGNMENT",
                "NO_REASSIGNMENT_IN_PROGRESS",
            ),
            Rows("responses", "topics", "name", _BY_INDEX),
        ),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        _InRows(
            _codes("RESOURCE_NOT_FOUND", "DUPLICATE_RESOURCE"),
            Rows("results", "users", "user=name"),
        ),
    ),
    ApiKey.DESCRIBE_QUORUM: (
        _InRows(
            _codes("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"),
            Rows("topics", "topics", "topic_name", _BY_INDEX),
        ),
    ),
    # The rows are log directories, which the request does not name.
    ApiKey.DESCRIBE_LOG_DIRS: (
        _InRows(_codes("KAFKA_STORAGE_ERROR"), Rows("results", "", "")),
    ),
}


class Shape(NamedTuple):
    """Where an error code stands: at the top level, if the version has a field for it,
    and in `rows`."""

    is_top: bool
    rows: tuple[Rows, ...]


def shape_of(key: ApiKey, version: int, code: ErrorCode) -> Shape:
    """Return where a code stands in a response.

    A code that no handler of Kafka puts into this response stands where
    `AbstractRequest.getErrorResponse` puts the code of an exception.
    """
    for place in _IN_ROWS.get(key, ()):
        if code in place.codes and version in place.rows.versions:
            return Shape(is_top=False, rows=(place.rows,))
    rows = tuple(each for each in ROWS.get(key, ()) if version in each.versions)
    if key is ApiKey.FETCH and version >= _SESSIONS_SINCE and code in FETCH_SESSION:
        rows = ()
    return Shape(is_top=True, rows=rows)


OF_ONE_TOPIC: Final = _OF_FETCHED - _codes("UNKNOWN_SERVER_ERROR") | _codes(
    "REQUEST_TIMED_OUT",
    "MESSAGE_TOO_LARGE",
    "OFFSET_METADATA_TOO_LARGE",
    "INVALID_TOPIC_EXCEPTION",
    "RECORD_LIST_TOO_LARGE",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "INVALID_TIMESTAMP",
    "TOPIC_ALREADY_EXISTS",
    "INVALID_PARTITIONS",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_REPLICA_ASSIGNMENT",
    "INVALID_CONFIG",
    "POLICY_VIOLATION",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN_PRODUCER_ID",
    "REASSIGNMENT_IN_PROGRESS",
    "NO_REASSIGNMENT_IN_PROGRESS",
    "LISTENER_NOT_FOUND",
    "TOPIC_DELETION_DISABLED",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "ELECTION_NOT_NEEDED",
    "UNSTABLE_OFFSET_COMMIT",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "INVALID_RECORD",
    "THROTTLING_QUOTA_EXCEEDED",
)
"""The codes that a broker gives to one topic or partition of a request. Others, such as
NOT_COORDINATOR in OffsetCommit, stand in the rows of all topics."""
