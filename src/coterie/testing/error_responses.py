"""Error responses to requests, in the shape that Apache Kafka gives them.

The error code is at the top level, or in one row for each topic, partition, group or
resource of the request: `error_rows.py` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from coterie.testing.error_rows import FETCH_SESSION, Rows, copied_fields, shape_of
from coterie.wire.api import ApiKey, api_of
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Field, Message, Struct

_NULL_NAME_SINCE: Final = 7
"""The version of JoinGroup from which an error has no protocol name."""


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
    key = ApiKey(request.API_KEY)
    if key is ApiKey.PRODUCE and not request.acks:
        return None
    response: Any = api_of(key).response(**_VALUES.get(key, {}))
    shape = shape_of(key, version, code)
    if shape.is_top:
        _set_error(response, version, "error_code", code, message)
    for rows in shape.rows:
        _fill(response, request, rows, version, code, message)
    _add_details(response, request, version, code, message)
    return response  # type: ignore[no-any-return]


def _add_details(
    response: Any, request: Any, version: int, code: ErrorCode, message: str | None
) -> None:
    """Fill what only one API has."""
    match ApiKey(request.API_KEY):
        case ApiKey.FETCH if code not in FETCH_SESSION:
            response.session_id = request.session_id
        case ApiKey.JOIN_GROUP:
            if version < _NULL_NAME_SINCE:
                response.protocol_name = ""
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                response.member_id = request.member_id
        case ApiKey.API_VERSIONS if code is ErrorCode.UNSUPPORTED_VERSION:
            _add_version_range(response)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            _fill_log_dirs(response, request, code)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            _fill_users(response, request, version, code, message)


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
    elements = getattr(request, rows.request) if rows.request else None
    for element in elements or ():
        row = declared.element(**rows.values)
        for name, source in copied_fields(rows.fields):
            value = element if source == "*" else getattr(element, source)
            setattr(row, name, "" if value is None and name == "name" else value)
        _set_error(row, version, rows.error, code, message)
        if rows.nested is not None:
            _fill(row, element, rows.nested, version, code, message)
        getattr(response, rows.response).append(row)


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
