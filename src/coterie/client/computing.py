"""Computes a group's assignment when the coordinator asks its member to (E13.1).

Prepare brings the group, the assignor's function computes, Install hands the result in.
Whatever goes wrong is told to the coordinator or left to it: it asks again, or asks
another member after a deadline (E13-08).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from coterie.client.assignor import ClientAssignor, computed
from coterie.client.cluster import COORDINATOR_ELSEWHERE, Cluster
from coterie.client.membership import Membership
from coterie.client.pulse import Pulse
from coterie.errors import ApiError, CoterieError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)

_LOGGER = logging.getLogger(__name__)
_FAILED: Final = 1


class Computing:
    """Runs the assignors of one member. `pulse` beats when a heartbeat was answered."""

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        pulse: Pulse,
        assignors: Sequence[ClientAssignor],
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._pulse = pulse
        self._assignors = {each.name: each for each in assignors}

    async def run(self) -> None:
        """Compute whenever it is asked for, until the membership is over."""
        while not self._membership.is_over:
            if not self._membership.take_computation():
                await self._pulse.wait()
                continue
            try:
                await self._compute()
            except CoterieError as error:
                group_id = self._membership.identity.group_id
                _LOGGER.warning("group %s: no assignment: %s", group_id, error)

    async def _compute(self) -> None:
        membership = self._membership
        group_id, epoch = membership.identity.group_id, membership.epoch
        prepare = ConsumerGroupPrepareAssignmentRequest(
            group_id=group_id, member_id=membership.member_id, member_epoch=epoch
        )
        prepared = await self._cluster.call_coordinator(
            group_id, prepare, ConsumerGroupPrepareAssignmentResponse
        )
        self._check(prepared.error_code, prepared.error_message)
        installed = await self._cluster.call_coordinator(
            group_id,
            self._install(prepared, epoch),
            ConsumerGroupInstallAssignmentResponse,
        )
        self._check(installed.error_code, installed.error_message)

    def _install(
        self, prepared: ConsumerGroupPrepareAssignmentResponse, epoch: int
    ) -> ConsumerGroupInstallAssignmentRequest:
        """The result, or that there is none (E13-11)."""
        install = ConsumerGroupInstallAssignmentRequest(
            group_id=self._membership.identity.group_id,
            member_id=self._membership.member_id,
            member_epoch=epoch,
            group_epoch=prepared.group_epoch,
        )
        name = prepared.assignor_name
        try:
            install.members = computed(self._assignors[name], prepared)
        except Exception:
            _LOGGER.exception("assignor %s failed", name)
            install.error = _FAILED
        return install

    def _check(self, number: int, message: str | None) -> None:
        if not number:
            return
        code = ErrorCode.read(number)
        if code in COORDINATOR_ELSEWHERE:
            self._cluster.forget_coordinator(self._membership.identity.group_id)
        raise ApiError(code, message or code.name)
