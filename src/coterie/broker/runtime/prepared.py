"""Requests whose records are written by the caller, and replayed when they are written.

The gateway writes a transactional offset commit to the upstream cluster with the
producer id of the application. The cluster may refuse it, as when the application is
fenced, and that must not stop the shard. So nothing changes before the cluster has
acknowledged the records.

    prepared = prepare(runtime, shard, request, call, call.respond)
    if prepared is not None:
        produce(prepared.result.records, ...)
        -> replay_written(runtime, prepared, base_offset, timestamp_ms)
        or refuse_prepared(prepared, error)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coterie.broker.coordinator.result import Result
from coterie.broker.coordinator.shard import Shard
from coterie.broker.runtime.caller import Caller
from coterie.broker.runtime.deferred import PendingRequest, Respond
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import DrivenShard
from coterie.errors import ApiError
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode


class Prepared(NamedTuple):
    """A request that was handled, and nothing of its result applied."""

    driven: DrivenShard
    shard: Shard
    pending: PendingRequest
    result: Result


def prepare(
    runtime: Runtime, index: int, request: Any, caller: Caller, respond: Respond
) -> Prepared | None:
    """Handle a request without applying its result.

    Return None when the response was sent: a refusal, or there is nothing to write.
    """
    driven = runtime.readable_shard(index)
    context = runtime.context_of(caller)
    if driven is None:
        runtime.submit(index, request, caller, respond)  # it responds with the reason
        return None
    pending = PendingRequest(request, context, respond)
    try:
        result = driven.handle(request, context)
    except ApiError as error:
        response = driven.shard.refuse(request, context, error.code, error.message)
        runtime.respond(driven, pending, response)
        return None
    except Exception:
        runtime.stop_after_bug(driven)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        respond(driven.shard.refuse(request, context, code))
        return None
    assert result.response is not None, "a commit responds at once"
    if not result.records:
        runtime.respond(driven, pending, result.response)
        return None
    return Prepared(driven, driven.shard, pending, result)


def replay_written(
    runtime: Runtime, prepared: Prepared, base_offset: LogOffset, timestamp_ms: int
) -> None:
    """Apply the result, whose records are in the shard's log from `base_offset` on, and
    respond.

    The response is NOT_COORDINATOR when the shard was stopped or released meanwhile:
    the shard's next owner loads the records from the log.
    """
    driven, shard, pending, result = prepared
    if driven.shard is not shard or runtime.readable_shard(driven.index) is None:
        refuse_prepared(prepared, ErrorCode.NOT_COORDINATOR)
        return
    try:
        runtime.replay(driven, result, base_offset, timestamp_ms)
    except Exception:
        runtime.stop_after_bug(driven)
        refuse_prepared(prepared, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    assert result.response is not None
    runtime.respond(driven, pending, result.response)


def refuse_prepared(
    prepared: Prepared, code: ErrorCode, message: str | None = None
) -> None:
    """Respond with the error with which the records were refused; nothing changes."""
    request, context, respond = prepared.pending
    respond(prepared.shard.refuse(request, context, code, message))
