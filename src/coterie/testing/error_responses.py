"""Error responses to requests, in the shape that Apache Kafka gives them.

`error_response` does what `AbstractRequest.getErrorResponse` of Kafka does for each
API: the error code is at the top level where the version has a field for it, or in one
row for each topic, partition, group or resource of the request. `ROWS` declares the
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from coterie.wire.api import ApiKey, api_of
from coterie.wire.error_codes import ErrorCode
from coterie.wire.plain_commit import PlainCommit
from coterie.wire.schema import VERSION_MAX, Field, Message, Struct, Versions

_ALL: Final = Versions(0, VERSION_MAX)
_NULL_NAME_SINCE: Final = 7
"""The version of JoinGroup from which an error has no protocol name."""


class Rows(NamedTuple):
    """An array of a response that has one row for each element of a request's array.

    `fields` are copied: "name", "partition_index=partition" for a field with another
    name in the request, or "group_id=*" for the element itself. `values` are constants
    that differ from the schema's defaults. `versions` have the rows.
    """

    response: str
    request: str
    fields: str
    nested: Rows | None = None
    values: Mapping[str, Any] = {}
    error: str = "error_code"
    versions: Versions = _ALL


_TOPIC: Final = "name topic_id"
_RESOURCE: Final = "resource_type resource_name"

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
            Rows(
                "partitions",
                "partitions",
                "partition_index=partition",
                values={"high_watermark": -1, "records": b""},
            ),
            versions=Versions(4, 12),
        ),
    ),
    ApiKey.LIST_OFFSETS: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows("partitions", "partitions", "partition_index"),
        ),
    ),
    # Metadata and DescribeTopicPartitions: an empty name instead of null.
    ApiKey.METADATA: (Rows("topics", "topics", _TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (Rows("topics", "topics", "name"),),
    ApiKey.OFFSET_COMMIT: (
        Rows(
            "topics",
            "topics",
            _TOPIC,
            Rows("partitions", "partitions", "partition_index"),
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows("partitions", "partitions", "partition_index"),
        ),
    ),
    ApiKey.OFFSET_FETCH: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows(
                "partitions",
                "partition_indexes",
                "partition_index=*",
                values={"committed_offset": -1},
            ),
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
    ApiKey.CREATE_TOPICS: (Rows("topics", "topics", "name"),),
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
            Rows(
                "results_by_partition",
                "partitions",
                "partition_index=*",
                error="partition_error_code",
            ),
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
            Rows("partition_result", "partitions", "partition_id=*"),
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Rows(
            "responses",
            "topics",
            "name",
            Rows("partitions", "partitions", "partition_index"),
        ),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows("partitions", "partition_indexes", "partition_index=*"),
        ),
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
    ApiKey.DESCRIBE_PRODUCERS: (
        Rows(
            "topics",
            "topics",
            "name",
            Rows("partitions", "partition_indexes", "partition_index=*"),
        ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Rows("transaction_states", "transactional_ids", "transactional_id=*"),
    ),
}

_VALUES: Final[Mapping[ApiKey, Mapping[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
}
"""The constants at the top level that differ from the schema's defaults."""


def error_response(
    request: Any, version: int, code: ErrorCode, message: str | None = None
) -> Message | None:
    """Return the response to `request`, decoded in `version`, that carries `code`.

    `message` is put into the fields `error_message` that the version has; Kafka sends
    null for most errors. Return None for a Produce request with acks=0, which has no
    response.
    """
    if isinstance(request, PlainCommit):
        request = request.general()
    key = ApiKey(request.API_KEY)
    if key is ApiKey.PRODUCE and not request.acks:
        return None
    response: Any = api_of(key).response(**_VALUES.get(key, {}))
    _set_error(response, version, "error_code", code, message)
    for rows in ROWS.get(key, ()):
        if version in rows.versions:
            _fill(response, request, rows, version, code, message)
    match key:
        case ApiKey.FETCH:
            response.session_id = request.session_id
        case ApiKey.JOIN_GROUP if version < _NULL_NAME_SINCE:
            response.protocol_name = ""
        case ApiKey.API_VERSIONS if code is ErrorCode.UNSUPPORTED_VERSION:
            _add_version_range(response)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            _fill_log_dirs(response, request, code)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            _fill_users(response, request, version, code, message)
    return response  # type: ignore[no-any-return]


def _set_error(
    target: Any, version: int, name: str, code: ErrorCode, message: str | None
) -> None:
    declared = target.FIELDS.get(name)
    if declared is None or version not in declared.versions:
        return
    setattr(target, name, code)
    if message is not None and "error_message" in target.FIELDS:
        target.error_message = message


def _fill(
    response: Any,
    request: Any,
    rows: Rows,
    version: int,
    code: ErrorCode,
    message: str | None,
) -> None:
    """Fill an array of the response from one of the request."""
    declared: Field = response.FIELDS[rows.response]
    if version not in declared.versions:
        return
    assert isinstance(declared.element, type)
    for element in getattr(request, rows.request) or ():
        row = declared.element(**rows.values)
        for name, source in _copies(rows.fields):
            value = element if source == "*" else getattr(element, source)
            setattr(row, name, "" if value is None and name == "name" else value)
        _set_error(row, version, rows.error, code, message)
        if rows.nested is not None:
            _fill(row, element, rows.nested, version, code, message)
        getattr(response, rows.response).append(row)


@cache
def _copies(fields: str) -> tuple[tuple[str, str], ...]:
    """Parse `Rows.fields` to pairs of the response's and the request's field."""
    pairs = (each.partition("=") for each in fields.split())
    return tuple((name, source or name) for name, _, source in pairs)


def _add_version_range(response: Any) -> None:
    """Name the served versions of ApiVersions, so that the client can retry
    (KIP-511)."""
    served = api_of(ApiKey.API_VERSIONS).advertised
    element = response.FIELDS["api_keys"].element
    response.api_keys.append(
        element(
            api_key=ApiKey.API_VERSIONS,
            min_version=served.low,
            max_version=served.high,
        )
    )


def _fill_log_dirs(response: Any, request: Any, code: ErrorCode) -> None:
    """Add a row for each topic of each directory: the response has no directories."""
    element = response.FIELDS["results"].element
    partition = element.FIELDS["partitions"].element
    for directory in request.dirs:
        for topic in directory.topics:
            rows = [
                partition(partition_index=index, error_code=code)
                for index in topic.partitions
            ]
            response.results.append(element(topic_name=topic.name, partitions=rows))


def _fill_users(
    response: Any, request: Any, version: int, code: ErrorCode, message: str | None
) -> None:
    """Add one row for each user, sorted by name."""
    element = response.FIELDS["results"].element
    for user in sorted(
        {each.name for each in (*request.deletions, *request.upsertions)}
    ):
        row = element(user=user)
        _set_error(row, version, "error_code", code, message)
        response.results.append(row)


# The errors in a response.


def error_names(response: Struct | None) -> tuple[str, ...]:
    """Return the names of the different errors in a response, in its order."""
    if response is None:
        return ()
    found = dict.fromkeys(_codes(response))
    return tuple(_name(code) for code in found if code)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _codes(value: Any) -> Iterator[int]:
    cls: Any = type(value)
    names, nested = _error_fields(cls)
    for name in names:
        yield getattr(value, name)
    for name in nested:
        content = getattr(value, name)
        if isinstance(content, list):
            for element in content:
                yield from _codes(element)
        elif isinstance(content, Struct):
            yield from _codes(content)


@cache
def _error_fields(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of a struct with an error code, and those that contain some."""
    names = tuple(name for name in cls.FIELDS if name.endswith("error_code"))
    nested = []
    for name, declared in cls.FIELDS.items():
        element: Any = declared.element
        if not isinstance(element, str | None) and any(_error_fields(element)):
            nested.append(name)
    return names, tuple(nested)
