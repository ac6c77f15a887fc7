"""Client-side assignors: a member computes the group's target assignment (KIP-848).

Apache Kafka dropped this part of the KIP; `group.consumer.client.assignors.enable`
turns it on. When all members offer a common assignor, the coordinator chooses a member,
whose next heartbeat response has ShouldComputeAssignment set. That member fetches the
group with ConsumerGroupPrepareAssignment and returns the target with
ConsumerGroupInstallAssignment. If it takes longer than its rebalance timeout, the next
member that sends a heartbeat computes instead.

Entry points for the rest of the coordinator: `requests_assignment` and
`delegate_target` in a heartbeat, `handle_end_computation` for the timer, and the
handlers of both requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from coterie.broker.coordinator.assignors.spec import MemberSpec
from coterie.broker.coordinator.client_side.values import (
    ClientAssignor,
    Computation,
    Offer,
    Prepared,
    Readable,
    TargetDetail,
    offer_of,
)
from coterie.broker.coordinator.consumer.draft import ComputationSet, ConsumerDraft
from coterie.broker.coordinator.consumer.member import (
    STATIC_LEAVE_EPOCH,
    Member,
    Target,
)
from coterie.broker.coordinator.consumer.target import group_spec, target_input
from coterie.broker.coordinator.consumer.timers import (
    EndComputation,
    cancel_computation,
    computation_timer,
)
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import MemberId, TopicId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def common_assignor(offers: Mapping[Offer, int], size: int) -> str | None:
    """Return the assignor that all members offer with a common metadata version, or
    None.

    `offers` counts the members of each offer, `size` all members. Of several common
    assignors the one that most members prefer is selected; on a tie, the first by name.
    """
    if not offers or sum(offers.values()) < size:
        return None
    common = set.intersection(*({each.name for each in offer} for offer in offers))
    usable = {name for name in common if _is_readable(name, offers)}
    if not usable:
        return None
    votes: Counter[str] = Counter()
    for offer, count in offers.items():
        votes[next(each.name for each in offer if each.name in usable)] += count
    return min(usable, key=lambda name: (-votes[name], name))


def _is_readable(name: str, offers: Iterable[Offer]) -> bool:
    named = [each for offer in offers for each in _named(offer, name)]
    return max(each.minimum for each in named) <= min(each.maximum for each in named)


def _named(offer: Offer, name: str) -> list[Readable]:
    return [each for each in offer if each.name == name]


def check_offers(member: Member, offers: Iterable[Offer]) -> None:
    """Refuse a member whose assignors are incompatible with the offers of the group.

    Raises:
        ApiError: UNSUPPORTED_ASSIGNOR, INVALID_REQUEST.
    """
    names = [each.name for each in member.client_assignors]
    if len(set(names)) != len(names) or not all(names):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "ClientAssignors need names of their own."
        )
    for each in member.client_assignors:
        if not each.minimum <= each.version <= each.maximum:
            raise _unsupported(each)
        for offer in offers:
            for other in _named(offer, each.name):
                if other.minimum > each.maximum or each.minimum > other.maximum:
                    raise _unsupported(each)


def _unsupported(assignor: ClientAssignor) -> ApiError:
    return ApiError(
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        f"ClientAssignor {assignor.name} with versions {assignor.minimum} to "
        f"{assignor.maximum}, writing {assignor.version}, cannot be used here.",
    )


def asks_for_assignment(before: Member | None, after: Member) -> bool:
    """Return whether the member's offer requires a new target.

    It does when the list of assignors or the metadata changed, or the reason is not 0.
    """
    old = () if before is None else before.client_assignors
    new = after.client_assignors
    if old == new:
        return False
    if any(each.reason for each in new):
        return True
    unchanged = [each._replace(reason=0) for each in old]
    return unchanged != [each._replace(reason=0) for each in new]


def requests_assignment(
    draft: ConsumerDraft, before: Member | None, after: Member
) -> bool:
    """Return whether the member's offer requires a new target, after checking it.

    Raises:
        ApiError: UNSUPPORTED_ASSIGNOR, INVALID_REQUEST.
    """
    if not asks_for_assignment(before, after):
        return False
    check_offers(after, offers_of(draft))
    return True


def offers_of(draft: ConsumerDraft) -> Mapping[Offer, int]:
    """Return the number of members with each offer, including the changes of the
    draft."""
    counts = draft.group.offers.copy()
    for before, after in draft.changed_members():
        counts.subtract(_offers(before))
        counts.update(_offers(after))
    return {offer: count for offer, count in counts.items() if count > 0}


def _offers(member: Member | None) -> Iterable[Offer]:
    if member is None or not member.client_assignors:
        return ()
    return (offer_of(member.client_assignors),)


def delegate_target(draft: ConsumerDraft, sender: Member) -> bool:
    """Delegate the due target to a member; return False if the server must compute it.

    Sets `draft.computes` when the sender is the computing member.
    """
    if is_client_side(draft):
        draft.computes = delegate(draft, sender)
        return True
    if draft.group.computation is not None:
        end(draft)  # a member without the common assignor joined
    return False


def is_client_side(draft: ConsumerDraft) -> bool:
    """Return whether a member computes the group's next target.

    The cost depends on the number of different offers, not of members.
    """
    if not draft.context.environment.settings.group_consumer_client_assignors_enable:
        return False
    return common_assignor(offers_of(draft), draft.size) is not None


def delegate(draft: ConsumerDraft, sender: Member) -> bool:
    """Choose a member for the target of the group epoch; return whether it is the
    sender.

    The sender of the current heartbeat is the first candidate, as its response can
    request the computation. A group without a target gets an empty one of the
    epoch below, as a member must not stay at epoch 0, which means that it is joining.
    """
    if draft.assignment_epoch <= 0:
        draft.put_target_epoch()
        draft.bump()
    chosen = draft.group.computation
    if chosen is not None and draft.member(chosen.member_id) is not None:
        return chosen.member_id == sender.member_id
    passed_over = frozenset() if chosen is None else chosen.passed_over
    if sender.member_id in passed_over:
        if _is_another_left(draft, passed_over):
            return False
        passed_over = frozenset()  # all members have been chosen before: start over
    choose(draft, sender, passed_over)
    return True


def _is_another_left(draft: ConsumerDraft, passed_over: frozenset[str]) -> bool:
    """Return whether a member can still be chosen; one that left temporarily cannot."""
    return any(
        member.epoch != STATIC_LEAVE_EPOCH and member_id not in passed_over
        for member_id, member in draft.members().items()
    )


def choose(
    draft: ConsumerDraft, member: Member, passed_over: frozenset[str] = frozenset()
) -> None:
    """Choose this member to compute the target within its rebalance timeout."""
    assert member.client_assignors, "the member has no assignor"
    computation = Computation(member.member_id, passed_over=passed_over)
    draft.make(ComputationSet(draft.group_id, computation))
    draft.set(computation_timer(draft.group_id, member, draft.context.now_ms))


def end(draft: ConsumerDraft) -> None:
    """End the computation."""
    draft.make(ComputationSet(draft.group_id, None))
    draft.set(cancel_computation(draft.group_id))


def handle_end_computation(
    state: State, request: EndComputation, context: Context
) -> Result:
    """Skip a member that took too long; the next member that sends a heartbeat
    computes."""
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return Result()
    chosen = group.computation
    draft = ConsumerDraft(group, context)
    if chosen is None or chosen.member_id != request.member_id:
        return draft.result()
    passed_over = chosen.passed_over | {request.member_id}
    draft.make(ComputationSet(group.group_id, Computation("", passed_over=passed_over)))
    return draft.result()


def prepare_assignment(
    state: State, request: m.ConsumerGroupPrepareAssignmentRequest, context: Context
) -> Result:
    """Return the group as the input of the assignor, and keep it for the check at
    install.

    Raises: ApiError: The errors of `computing_draft`.
    """
    draft = computing_draft(state, request, context)
    name = common_assignor(offers_of(draft), draft.size)
    if name is None:
        # A member without the common assignor joined: the server assigns.
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
        m.ConsumerGroupPrepareAssignmentResponse(
            group_epoch=draft.epoch,
            assignor_name=name,
            members=[
                _prepared_member(members[member_id], each, name)
                for member_id, each in spec.members.items()
            ],
            topics=[
                m.PreparedTopic(
                    topic_id=topic_id,
                    topic_name=context.environment.topics.topic_name(topic_id) or "",
                    num_partitions=each.partition_count,
                )
                for topic_id, each in sorted(spec.topics.items())
            ],
        )
    )


def refuse_prepare(
    request: m.ConsumerGroupPrepareAssignmentRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.ConsumerGroupPrepareAssignmentResponse:
    """Return the response that carries an error and nothing else."""
    return m.ConsumerGroupPrepareAssignmentResponse(
        error_code=code, error_message=message
    )


def computing_draft(
    state: State,
    request: m.ConsumerGroupPrepareAssignmentRequest
    | m.ConsumerGroupInstallAssignmentRequest,
    context: Context,
) -> ConsumerDraft:
    """Return a draft of the group after checking that the sender is the computing
    member, in the KIP's order.

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
    return ConsumerDraft(group, context)


def not_chosen(member_id: str) -> ApiError:
    """Return the error for a member that is not the computing one."""
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not the one that computes the assignment.",
    )


def _prepared_member(member: Member, spec: MemberSpec, name: str) -> m.PreparedMember:
    (assignor,) = [each for each in member.client_assignors if each.name == name]
    return m.PreparedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        subscribed_topic_ids=sorted(spec.subscribed_topic_ids),
        assignor=m.MemberAssignor(
            reason=assignor.reason,
            metadata_version=assignor.version,
            metadata_bytes=assignor.metadata,
        ),
        topic_partitions=[
            m.TopicPartitions(topic_id=topic, partitions=sorted(some))
            for topic, some in sorted(spec.partitions.items())
        ],
    )


_NO_TARGET: Target = {}


def install_assignment(
    state: State, request: m.ConsumerGroupInstallAssignmentRequest, context: Context
) -> Result:
    """Check the assignment and make it the target of the epoch it was computed for.

    When the group epoch was bumped meanwhile, the same member computes again.

    Raises: ApiError: The errors of `computing_draft`, and INVALID_ASSIGNMENT.
    """
    draft = computing_draft(state, request, context)
    chosen = draft.group.computation
    assert chosen is not None
    prepared = chosen.prepared
    if prepared is None or prepared.epoch != request.group_epoch:
        raise _invalid(f"no input was prepared for group epoch {request.group_epoch}")
    if request.error:
        _put_error(draft, request.error)
    else:
        _check_assignment(request, prepared)
        _put_targets(draft, request)
    draft.put_target_epoch(prepared.epoch)
    end(draft)
    if draft.epoch > prepared.epoch:
        choose(draft, draft.group.members[request.member_id])
    return draft.result(m.ConsumerGroupInstallAssignmentResponse())


def refuse_install(
    request: m.ConsumerGroupInstallAssignmentRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.ConsumerGroupInstallAssignmentResponse:
    """Return the response that carries an error and nothing else."""
    return m.ConsumerGroupInstallAssignmentResponse(
        error_code=code, error_message=message
    )


def _check_assignment(
    request: m.ConsumerGroupInstallAssignmentRequest, prepared: Prepared
) -> None:
    """Check the assignment against the prepared input, not the present group."""
    owners: dict[tuple[TopicId, int], MemberId] = {}
    seen: set[MemberId] = set()
    for member in request.members:
        wanted = prepared.wanted.get(member.member_id)
        if wanted is None or member.member_id in seen:
            raise _invalid(f"member {member.member_id} is unknown or repeated")
        seen.add(member.member_id)
        for topic, partition in _given(member):
            if topic not in wanted:
                raise _invalid(
                    f"{member.member_id} does not subscribe to {topic.hex()}"
                )
            if not 0 <= partition < prepared.counts[topic]:
                raise _invalid(f"{topic.hex()} has no partition {partition}")
            if (topic, partition) in owners:
                raise _invalid(f"{topic.hex()}-{partition} is assigned twice")
            owners[topic, partition] = member.member_id


def _given(member: m.InstalledMember) -> Iterator[tuple[TopicId, int]]:
    for topic in member.partitions:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def _put_targets(
    draft: ConsumerDraft, request: m.ConsumerGroupInstallAssignmentRequest
) -> None:
    """Write the targets that change.

    Members that left since are skipped. Members that joined since, or are missing in
    the assignment, get an empty target.
    """
    given = {member.member_id: member for member in request.members}
    for member_id in sorted(draft.group.members):
        member = given.get(member_id)
        target, detail = _NO_TARGET, TargetDetail()
        if member is not None:
            target = _target_of(member)
            detail = TargetDetail(
                0, member.metadata_version, bytes(member.metadata_bytes)
            )
        is_same = target == draft.target(member_id) and detail == draft.detail(
            member_id
        )
        if not is_same or member_id not in draft.group.targets:
            draft.put_target(member_id, target, detail)


def _put_error(draft: ConsumerDraft, error: int) -> None:
    """Send the assignor's error to all members, whose targets do not change."""
    for member_id in sorted(draft.group.members):
        target = draft.target(member_id)
        draft.put_target(member_id, target, TargetDetail(error))


def _target_of(member: m.InstalledMember) -> Target:
    partitions: dict[TopicId, set[int]] = {}
    for topic, partition in _given(member):
        partitions.setdefault(topic, set()).add(partition)
    return {topic: frozenset(some) for topic, some in partitions.items()}


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_ASSIGNMENT, f"The assignment is invalid: {why}.")
