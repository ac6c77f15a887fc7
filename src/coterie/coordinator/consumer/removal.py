"""Members go: by their own will, by an admin's, or because they were not heard of.

All of them go the same way (E7-60, E8-02): their records are taken away, the group's
epoch is bumped once, and its next target waits for the next heartbeat of anyone. When
only members are left that speak the classic protocol, the group becomes a classic one
(E20-40).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from coterie.coordinator.consumer.downgrade import downgrade, may_downgrade
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Member


def remove_members(draft: Draft, members: Iterable[Member]) -> None:
    """Take members out of the group and let it look for another target (E22-26).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: the group was to become a classic one, and what
            another member says cannot be read.
    """
    gone = tuple(members)
    if may_downgrade(draft, gone):
        downgrade(draft, gone)
    else:
        just_remove(draft, gone)


def just_remove(draft: Draft, gone: Collection[Member]) -> None:
    """Take members out of the group, which stays a consumer group."""
    assert gone, "without a member that goes nothing is bumped"
    for member in gone:
        draft.remove(member)
    for regex in {member.topic_regex for member in gone}:
        draft.forget_regex(regex)
    assert draft.size >= 0
    draft.look_at_topics()
    draft.bump()
    if not draft.size:
        # An empty group waits for no target (E2-08, F6-04).
        draft.put_target_epoch()
