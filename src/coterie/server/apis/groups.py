"""What the modules of groups share: may they, which shard, and answers put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from coterie.auth.authorizer import Operation, ResourceType
from coterie.server.apis.support import operations_of
from coterie.server.call import Call
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

Answer = TypeVar("Answer")


def may_group(call: Call, operation: Operation, group_id: GroupId) -> bool:
    """Whether the caller may do this to a group."""
    return call.may(operation, ResourceType.GROUP, group_id)


def group_operations(call: Call, group_id: GroupId) -> int:
    """What the caller may do to a group, a bit for each operation (KIP-430, D-33)."""
    return operations_of(call, ResourceType.GROUP, group_id)


class Described(Protocol):
    """A group in an answer that describes some."""

    group_id: GroupId
    error_code: int
    authorized_operations: int


def tell_operations(call: Call, groups: Iterable[Described]) -> None:
    """Say of each group what the caller may do to it, if that was asked for."""
    if call.request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = group_operations(call, group.group_id)


def ask(
    call: Call, group_id: GroupId, request: Any, answer: Callable[[Any], None]
) -> None:
    """Have a request handled by the group's shard, if this node coordinates it.

    Otherwise the answer is NOT_COORDINATOR.
    """
    node = call.node
    broker = node.broker
    shard = broker.runtime.shard_of(group_id)
    if broker.shard_node(shard) is node:
        broker.runtime.submit(shard, request, call, answer)
    else:
        answer(broker.runtime.refusal(request, call, ErrorCode.NOT_COORDINATOR))


def pass_on(call: Call, operation: Operation) -> None:
    """Serve a request about one group as a whole: its shard's answer is the answer."""
    request = call.request
    if may_group(call, operation, request.group_id):
        ask(call, request.group_id, request, call.answer)
    else:
        refuse(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def pass_to_computing(call: Call) -> None:
    """Serve a request of a member that computes assignments, where that is on (E13)."""
    if call.node.broker.settings.group_consumer_client_assignors_enable:
        pass_on(call, Operation.READ)
    else:
        refuse(call, ErrorCode.UNSUPPORTED_VERSION)


def refuse(call: Call, code: ErrorCode) -> None:
    """Answer a request about one group with an error, where its schema has room."""
    call.answer(call.node.broker.runtime.refusal(call.request, call, code))


class Gathering(Generic[Answer]):
    """Collects the answers of many parts, in the order of the parts, whatever the order
    in which they come; `done` is called once, with all of them."""

    def __init__(self, parts: int, done: Callable[[Sequence[Answer]], None]) -> None:
        self._answers: list[Answer | None] = [None] * parts
        self._missing = parts
        self._done = done
        if not parts:
            done(())

    def part(self, at: int) -> Callable[[Answer], None]:
        """What the answer of one part is given to."""

        def take(answer: Answer) -> None:
            assert self._answers[at] is None, "a part was answered twice"
            self._answers[at] = answer
            self._missing -= 1
            if not self._missing:
                self._done([each for each in self._answers if each is not None])

        return take
