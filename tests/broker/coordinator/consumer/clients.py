"""Simulated clients of both protocols. Each keeps its owned partitions and applies one
response at a time.
"""

from __future__ import annotations

from typing import Any

from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import join_request, leave, sync
from tests.broker.coordinator.consumer.classic_requests import assigned, assigns, offers
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.driver import Sent

PARTITIONS = 6
TIMEOUT_MS = 60_000
LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)
"""Errors after which a member drops all its partitions."""


class NewClient:
    """A member of the consumer protocol, subscribed to foo."""

    def __init__(self, driver: GroupDriver, name: str, instance: str | None) -> None:
        self.driver, self.name, self.instance = driver, name, instance
        self.epoch = 0
        self.owned: set[int] = set()

    def act(self) -> None:
        """Send the next heartbeat, and apply its response."""
        if self.epoch == 0:
            sent = self.driver.join(
                self.name, rebalance_timeout_ms=TIMEOUT_MS, instance_id=self.instance
            )
        else:
            sent = self.driver.heartbeat(
                self.name,
                self.epoch,
                owned={"foo": self.owned},
                instance_id=self.instance,
            )
        if sent.error:
            assert sent.error in LOST, sent.error
            self.epoch, self.owned = 0, set()
            return
        self.epoch = sent.response.member_epoch
        if sent.response.assignment is not None:
            topics = sent.response.assignment.topic_partitions
            self.owned = {p for topic in topics for p in topic.partitions}

    def leave(self) -> None:
        """Revoke all partitions and leave; a static member leaves temporarily."""
        self.owned = set()
        if self.epoch:
            epoch = -1 if self.instance is None else -2
            self.driver.heartbeat(self.name, epoch, instance_id=self.instance)


class OldClient:
    """A member of the classic protocol, either eager or cooperative."""

    def __init__(
        self, driver: GroupDriver, *, eager: bool, instance: str | None
    ) -> None:
        self.driver, self.eager, self.instance = driver, eager, instance
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.has_to_join = True
        self.waits: Sent | None = None

    def act(self) -> None:
        """Process the pending request; if there is none, join or send a heartbeat."""
        if self.waits is not None:
            if not self.waits.parked:
                waits, self.waits = self.waits, None
                take = self._joined if hasattr(waits.response, "leader") else self._got
                take(waits)
        elif self.has_to_join:
            self._join()
        else:
            self._heartbeat()

    def lose_response(self) -> None:
        """Drop the pending response."""
        if self.waits is not None and self.waits.parked:
            self.waits, self.has_to_join = None, True

    def leave(self) -> None:
        """Revoke all partitions and leave; a static member stays in the group."""
        self.owned = set()
        if self.member_id and self.instance is None:
            leave(self.driver, self.member_id)

    def _join(self) -> None:
        if self.eager:
            self.owned = set()
        request = join_request(
            self.member_id,
            protocols=offers("foo", owned={"foo": sorted(self.owned)}),
            group_instance_id=self.instance,
            session_timeout_ms=TIMEOUT_MS,
            rebalance_timeout_ms=TIMEOUT_MS,
        )
        self.waits = self.driver.send(request)

    def _joined(self, sent: Sent) -> None:
        answer = sent.response
        if sent.error:
            if sent.error == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            self._failed(sent.error)
            return
        self.has_to_join = False
        self.member_id, self.generation = answer.member_id, answer.generation_id
        leads = answer.leader == self.member_id
        given = _shared(answer.members, self.eager) if leads else None
        self.waits = sync(
            self.driver,
            self.member_id,
            self.generation,
            assignments=given,
            group_instance_id=self.instance,
        )

    def _got(self, sent: Sent) -> None:
        if sent.error:
            self._failed(sent.error)
            return
        given = set(assigned(sent.response.assignment).get("foo", ()))
        if not self.eager and self.owned - given:
            self.has_to_join = True
        self.owned = given

    def _heartbeat(self) -> None:
        request = m.HeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            generation_id=self.generation,
            group_instance_id=self.instance,
        )
        if error := self.driver.send(request).error:
            self._failed(error)

    def _failed(self, error: int) -> None:
        self.has_to_join = True
        if error in LOST:
            self.owned, self.generation = set(), -1
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""


def _shared(members: list[Any], eager: bool) -> dict[str, bytes]:
    """Compute an assignment as leader; a cooperative leader skips partitions with
    another owner.
    """
    claims: dict[int, str] = {}
    for member in members:
        subscription, _ = decode(m.ConsumerProtocolSubscription, 1, member.metadata, 2)
        for topic in subscription.owned_partitions:
            claims.update(dict.fromkeys(topic.partitions, member.member_id))
    given: dict[str, list[int]] = {member.member_id: [] for member in members}
    for at, member_id in zip(range(PARTITIONS), [*given] * PARTITIONS, strict=False):
        if eager or claims.get(at, member_id) == member_id:
            given[member_id].append(at)
    return {member_id: assigns({"foo": some}) for member_id, some in given.items()}
