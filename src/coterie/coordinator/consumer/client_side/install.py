"""ConsumerGroupInstallAssignment: what a member has computed is the target (E13.3)."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.coordinator.consumer.client_side.choice import choose, end
from coterie.coordinator.consumer.client_side.prepare import computing_draft
from coterie.coordinator.consumer.client_side.values import Prepared, TargetDetail
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Target
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import MemberId, TopicId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
)

_NOTHING: Target = {}


def handle(
    state: State, request: ConsumerGroupInstallAssignmentRequest, context: Context
) -> Result:
    """Check the assignment, and make it the target of the epoch that it was made for
    (E13-06).

    When the group has gone on meanwhile, the same member computes again (E13-07).

    Raises:
        ApiError: What `computing_draft` raises; INVALID_ASSIGNMENT.
    """
    draft = computing_draft(state, request, context)
    chosen = draft.group.computation
    assert chosen is not None
    prepared = chosen.prepared
    if prepared is None or prepared.epoch != request.group_epoch:
        raise _invalid(f"nothing was handed out for group epoch {request.group_epoch}")
    if request.error:
        _put_error(draft, request.error)
    else:
        _check(request, prepared)
        _put_targets(draft, request)
    draft.put_target_epoch(prepared.epoch)
    end(draft)
    if draft.epoch > prepared.epoch:
        choose(draft, draft.group.members[request.member_id])
    return draft.result(ConsumerGroupInstallAssignmentResponse())


def refuse(
    code: ErrorCode, message: str | None = None
) -> ConsumerGroupInstallAssignmentResponse:
    """The answer that carries an error and nothing else."""
    return ConsumerGroupInstallAssignmentResponse(
        error_code=code, error_message=message
    )


def _check(request: ConsumerGroupInstallAssignmentRequest, prepared: Prepared) -> None:
    """E13-30 to E13-33, against what was handed out, not what is now."""
    owners: dict[tuple[TopicId, int], MemberId] = {}
    seen: set[MemberId] = set()
    for member in request.members:
        wanted = prepared.wanted.get(member.member_id)
        if wanted is None or member.member_id in seen:
            raise _invalid(f"member {member.member_id} is unknown, or there twice")
        seen.add(member.member_id)
        for topic, partition in _given(member):
            if topic not in wanted:
                raise _invalid(f"{member.member_id} does not want {topic.hex()}")
            if not 0 <= partition < prepared.counts[topic]:
                raise _invalid(f"{topic.hex()} has no partition {partition}")
            if (topic, partition) in owners:
                raise _invalid(f"{topic.hex()}-{partition} is given twice")
            owners[topic, partition] = member.member_id


def _given(member: InstalledMember) -> Iterator[tuple[TopicId, int]]:
    for topic in member.partitions:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def _put_targets(draft: Draft, request: ConsumerGroupInstallAssignmentRequest) -> None:
    """Write the targets that change. Who has left since is left out, and who has come
    since, or is not mentioned, gets nothing (E13-35)."""
    given = {member.member_id: member for member in request.members}
    for member_id in sorted(draft.group.members):
        member = given.get(member_id)
        target, detail = _NOTHING, TargetDetail()
        if member is not None:
            target = _target(member)
            detail = TargetDetail(
                0, member.metadata_version, bytes(member.metadata_bytes)
            )
        is_same = target == draft.target(member_id) and detail == draft.detail(
            member_id
        )
        if not is_same or member_id not in draft.group.targets:
            draft.put_target(member_id, target, detail)


def _put_error(draft: Draft, error: int) -> None:
    """Nobody's partitions change, and everybody is told why (E13-11)."""
    for member_id in sorted(draft.group.members):
        target = draft.target(member_id)
        draft.put_target(member_id, target, TargetDetail(error))


def _target(member: InstalledMember) -> Target:
    partitions: dict[TopicId, set[int]] = {}
    for topic, partition in _given(member):
        partitions.setdefault(topic, set()).add(partition)
    return {topic: frozenset(some) for topic, some in partitions.items()}


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_ASSIGNMENT, f"The assignment is invalid: {why}.")
