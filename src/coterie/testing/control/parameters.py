"""The parameters of control requests, from the query or the body, and errors as
refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

from coterie.errors import ApiError
from coterie.testing.control.http import ControlRequest, Refused, bad_request
from coterie.wire.error_codes import ErrorCode

T = TypeVar("T")

_WAIT_MS: Final = 30_000
_WAIT_MS_MAX: Final = 120_000
_UNKNOWN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND}
)


def _refusal(value: object, name: str, what: str) -> Refused:
    return bad_request(f"{name}={value!r} is wrong", f"send {name} as {what}")


def required(value: T | None, name: str) -> T:
    """Return a value that has to be there. Raises Refused."""
    if value is None:
        raise bad_request(f"{name} is missing", f"send {name}")
    return value


def text(values: Mapping[str, Any], name: str) -> str | None:
    """Return a text, or None if it is absent. Raises Refused."""
    value = values.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _refusal(value, name, "a text")


def integer(values: Mapping[str, Any], name: str) -> int | None:
    """Return a number of at least 0, or None if it is absent. Raises Refused."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    raise _refusal(value, name, "a number from 0 to 2147483647")


def number(values: Mapping[str, Any], name: str) -> float:
    """Return a number of at least 0, which may have a fraction. Raises Refused."""
    value = values.get(name)
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    ):
        return value
    raise _refusal(value, name, "a number of at least 0")


def boolean(values: Mapping[str, Any], name: str) -> bool | None:
    """Return a boolean, or None if it is absent. Raises Refused."""
    value = values.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise _refusal(value, name, "true or false")


def timeout_s(request: ControlRequest) -> float:
    """Return the parameter `timeout_ms` in seconds; at most 120 s, 30 s by default."""
    wait_ms = integer(request.query, "timeout_ms")
    return min(_WAIT_MS if wait_ms is None else wait_ms, _WAIT_MS_MAX) / 1_000


@contextmanager
def unmet() -> Iterator[None]:
    """Turn the end of a wait into a refusal."""
    try:
        yield
    except AssertionError as error:
        raise Refused(
            HTTPStatus.CONFLICT, str(error), "?timeout_ms= changes the wait, in ms"
        ) from None


@contextmanager
def refusals() -> Iterator[None]:
    """Turn errors of arguments and of Kafka's APIs into refusals."""
    try:
        yield
    except ApiError as error:
        is_unknown = error.code in _UNKNOWN
        raise Refused(
            HTTPStatus.NOT_FOUND if is_unknown else HTTPStatus.CONFLICT,
            str(error),
            "GET /v1/topics and GET /v1/groups list what exists",
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise bad_request(str(error), "see docs/testing/other-languages.md") from None
