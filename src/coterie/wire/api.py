"""The APIs and the versions of each that are advertised and served.

`ADVERTISED` is the content of ApiVersions responses. It follows Apache Kafka 4.4, with
the old minimum versions that librdkafka requires. The versions served
are those that the message classes declare: a version that is advertised but not
declared (Produce 0 to 2) closes the connection when it is used, as in Kafka.

A message module is imported on first use of its API, so that a command which needs
three APIs does not import forty.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple

from coterie.wire import messages
from coterie.wire.schema import Message, Versions


class ApiKey(IntEnum):
    """The APIs, with Kafka's names and keys."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    CONSUMER_GROUP_PREPARE_ASSIGNMENT = 16384
    CONSUMER_GROUP_INSTALL_ASSIGNMENT = 16385

    @property
    def title(self) -> str:
        """The API's name as in Kafka's message definitions, as in "OffsetFetch"."""
        return "".join(word.capitalize() for word in self.name.split("_"))


ADVERTISED: Final[Mapping[ApiKey, Versions]] = {
    ApiKey.PRODUCE: Versions(0, 13),
    ApiKey.FETCH: Versions(4, 18),
    ApiKey.LIST_OFFSETS: Versions(1, 11),
    ApiKey.METADATA: Versions(0, 13),
    ApiKey.OFFSET_COMMIT: Versions(2, 10),
    ApiKey.OFFSET_FETCH: Versions(1, 10),
    ApiKey.FIND_COORDINATOR: Versions(0, 6),
    ApiKey.JOIN_GROUP: Versions(0, 9),
    ApiKey.HEARTBEAT: Versions(0, 4),
    ApiKey.LEAVE_GROUP: Versions(0, 5),
    ApiKey.SYNC_GROUP: Versions(0, 5),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 6),
    ApiKey.LIST_GROUPS: Versions(0, 5),
    ApiKey.SASL_HANDSHAKE: Versions(0, 1),
    ApiKey.API_VERSIONS: Versions(0, 5),
    ApiKey.CREATE_TOPICS: Versions(2, 7),
    ApiKey.DELETE_TOPICS: Versions(1, 6),
    ApiKey.DELETE_RECORDS: Versions(0, 2),
    ApiKey.INIT_PRODUCER_ID: Versions(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Versions(0, 4),
    ApiKey.END_TXN: Versions(0, 5),
    ApiKey.TXN_OFFSET_COMMIT: Versions(0, 6),
    ApiKey.DESCRIBE_ACLS: Versions(1, 3),
    ApiKey.CREATE_ACLS: Versions(1, 3),
    ApiKey.DELETE_ACLS: Versions(1, 3),
    ApiKey.DESCRIBE_CONFIGS: Versions(1, 4),
    ApiKey.ALTER_CONFIGS: Versions(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Versions(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Versions(1, 5),
    ApiKey.SASL_AUTHENTICATE: Versions(0, 2),
    ApiKey.CREATE_PARTITIONS: Versions(0, 3),
    ApiKey.DELETE_GROUPS: Versions(0, 3),
    ApiKey.ELECT_LEADERS: Versions(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions(0, 0),
    ApiKey.OFFSET_DELETE: Versions(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions(0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Versions(0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions(0, 0),
    ApiKey.DESCRIBE_QUORUM: Versions(0, 2),
    ApiKey.DESCRIBE_CLUSTER: Versions(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Versions(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Versions(0, 0),
    ApiKey.LIST_TRANSACTIONS: Versions(0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: Versions(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: Versions(1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: Versions(1, 1),
    ApiKey.SHARE_FETCH: Versions(1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: Versions(1, 2),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Versions(0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Versions(0, 0),
}


PRIVATE: Final[Mapping[ApiKey, Versions]] = {
    ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT: Versions(0, 0),
    ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT: Versions(0, 0),
}
"""The two APIs of KIP-848 to which Kafka never gave a key. Coterie's keys are far above
Kafka's, and advertised only if `group.consumer.client.assignors.enable` is set.
"""

IMPLEMENTED: Final[Mapping[ApiKey, Versions]] = {**ADVERTISED, **PRIVATE}
"""All APIs of the server, the private ones included."""

CLIENT_ONLY: Final[Mapping[ApiKey, Versions]] = {
    ApiKey.WRITE_TXN_MARKERS: Versions(1, 2),
    ApiKey.STREAMS_GROUP_DESCRIBE: Versions(0, 0),
}
"""APIs that the admin client sends to other brokers; the server refuses them as unknown
and does not advertise them."""


class Api(NamedTuple):
    """An API: its messages, and the versions that are served and advertised; for one
    in `CLIENT_ONLY`, the versions that the client sends."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    served: Versions
    advertised: Versions


@cache
def api_of(key: ApiKey) -> Api:
    """Return the API of a key; import its messages on the first call."""
    request: type[Message] = getattr(messages, f"{key.title}Request")
    response: type[Message] = getattr(messages, f"{key.title}Response")
    advertised = IMPLEMENTED.get(key) or CLIENT_ONLY[key]
    served = Versions(
        max(advertised.low, request.VERSIONS.low),
        min(advertised.high, request.VERSIONS.high),
    )
    return Api(key, request, response, served, advertised)
