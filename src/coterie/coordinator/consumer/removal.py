"""Members go: by their own will, by an admin's, or because they were not heard of.

All of them go the same way (E7-60, E8-02): their records are taken away, the group's
epoch is bumped once, and its next target waits for the next heartbeat of anyone.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Member


def remove_members(draft: Draft, members: Iterable[Member]) -> None:
    """Take members out of the group and let it look for another target (E22-26)."""
    gone = tuple(members)
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
