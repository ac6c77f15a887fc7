"""ConsumerGroupPrepareAssignment: what the computing member computes with (E13.2)."""

from __future__ import annotations

from coterie.coordinator.assignors.spec import MemberSpec
from coterie.coordinator.consumer.assign import target_input
from coterie.coordinator.consumer.changes import ComputationSet
from coterie.coordinator.consumer.client_side.mode import common_assignor
from coterie.coordinator.consumer.client_side.values import Prepared
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.target import group_spec
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    MemberAssignor,
    MemberPartitions,
    PreparedMember,
    PreparedTopic,
)


def handle(
    state: State, request: ConsumerGroupPrepareAssignmentRequest, context: Context
) -> Result:
    """Hand the group over as it is, and remember what was handed over.

    Raises:
        ApiError: What `computing_draft` raises.
    """
    draft = computing_draft(state, request, context)
    name = common_assignor(draft.offers(), draft.size)
    if name is None:
        # A member has come that offers no common assignor: the server assigns.
        raise not_chosen(request.member_id)
    spec = group_spec(target_input(draft))
    chosen = draft.group.computation
    assert chosen is not None
    prepared = Prepared(
        draft.epoch,
        {key: member.subscribed_topic_ids for key, member in spec.members.items()},
        {topic: each.partition_count for topic, each in spec.topics.items()},
    )
    draft.make(ComputationSet(draft.group_id, chosen._replace(prepared=prepared)))
    members = draft.group.members
    return draft.result(
        ConsumerGroupPrepareAssignmentResponse(
            group_epoch=draft.epoch,
            assignor_name=name,
            members=[
                _member(members[member_id], each, name)
                for member_id, each in spec.members.items()
            ],
            topics=[
                PreparedTopic(
                    topic_id=topic_id,
                    topic_name=context.topics.topic_name(topic_id) or "",
                    num_partitions=each.partition_count,
                )
                for topic_id, each in sorted(spec.topics.items())
            ],
        )
    )


def refuse(
    code: ErrorCode, message: str | None = None
) -> ConsumerGroupPrepareAssignmentResponse:
    """The answer that carries an error and nothing else."""
    return ConsumerGroupPrepareAssignmentResponse(
        error_code=code, error_message=message
    )


def computing_draft(
    state: State,
    request: ConsumerGroupPrepareAssignmentRequest
    | ConsumerGroupInstallAssignmentRequest,
    context: Context,
) -> Draft:
    """The group of a member that computes; the checks are in the KIP's order.

    Raises:
        ApiError: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also when
            another member was chosen), STALE_MEMBER_EPOCH.
    """
    if not request.group_id or not request.member_id or request.member_epoch < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "GroupId and MemberId can't be empty, nor MemberEpoch negative.",
        )
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found."
        )
    member = group.members.get(request.member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != request.member_epoch:
        raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)
    if group.computation is None or group.computation.member_id != member.member_id:
        raise not_chosen(member.member_id)
    return Draft(group, context)


def not_chosen(member_id: str) -> ApiError:
    """Somebody else computes, or nobody (E13-08)."""
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not the one that computes the assignment.",
    )


def _member(member: Member, spec: MemberSpec, name: str) -> PreparedMember:
    (assignor,) = [each for each in member.client_assignors if each.name == name]
    return PreparedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        subscribed_topic_ids=sorted(spec.subscribed_topic_ids),
        assignor=MemberAssignor(
            reason=assignor.reason,
            metadata_version=assignor.version,
            metadata_bytes=assignor.metadata,
        ),
        topic_partitions=[
            MemberPartitions(topic_id=topic, partitions=sorted(some))
            for topic, some in sorted(spec.partitions.items())
        ],
    )
