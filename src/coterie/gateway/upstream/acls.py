"""Copy the ACL bindings of the upstream cluster, for the rights on groups.

The authorizer decides by upstream's bindings, which are read regularly with
DescribeAcls. Upstream's `super.users` and `allow.everyone.if.no.acl.found` cannot be
read, so the gateway has settings of the same names. All changes of one response are
applied together: a state between two of them could allow what neither allows.

An upstream without an authorizer allows everything. Only the first read may show that:
a broker that starts without its authorizer by mistake opens nothing here. Once
upstream has an authorizer, its bindings decide, without a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping

from coterie.auth.acl import AclBinding
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker import DataPlane, Entry, EntryKind
from coterie.client import Cluster
from coterie.client.admin.acls import bindings_of, describe_acls_request
from coterie.client.connection import ELEMENTS_MAX, Undecoded
from coterie.errors import ApiError
from coterie.gateway.upstream.poller import POLL_MS, Poller, digest_of
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


class AclFeed(Poller):
    """The copy of upstream's bindings in the catalog of `data`, whose authorizer is
    `acls`. `start` reads once, then regularly."""

    def __init__(
        self,
        cluster: Cluster,
        data: DataPlane,
        acls: AclAuthorizer,
        *,
        poll_ms: int = POLL_MS,
    ) -> None:
        super().__init__(poll_ms, "the ACL bindings of upstream")
        self._cluster = cluster
        self._data = data
        self._acls = acls
        self._bindings: dict[str, AclBinding] = {}
        self._digest = b""
        self._was_enforced = False
        self._ignored: set[AclBinding] = set()

    async def start(self) -> None:
        """Copy all bindings, and go on with it in the background.

        Raises the errors of the client; `preflight` has checked that the bindings can
        be read.
        """
        await self._cluster.retrying(self.poll)
        self.repeat()

    async def poll(self) -> None:
        """Copy the bindings if they have changed."""
        connection = await self._cluster.connection()
        received = await connection.call_undecoded(describe_acls_request())
        digest = digest_of(received)
        if digest == self._digest:
            return
        try:
            bindings = await asyncio.to_thread(_decode, received)
        except ApiError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED or self._was_enforced:
                raise
            self._acls.enforce(is_enforced=False)
            _LOGGER.info("upstream has no authorizer")  # a warning of `preflight`
        else:
            self._apply(bindings)
            self._acls.enforce(is_enforced=True)
            self._was_enforced = True
        self._digest = digest

    def _apply(self, found: Iterable[AclBinding]) -> None:
        known = dict(self._readable(found))
        before = self._bindings
        self._data.stage(_differences(before, known))
        self._bindings = known
        self._data.when_durable(lambda _: None)
        if before != known:
            _LOGGER.info("upstream has %d ACL bindings", len(known))

    def _readable(
        self, found: Iterable[AclBinding]
    ) -> Iterator[tuple[str, AclBinding]]:
        """Yield the bindings that this version knows, with their keys."""
        for acl in found:
            if all((acl.resource_type, acl.pattern, acl.operation, acl.permission)):
                yield acl.key, acl
            elif acl not in self._ignored:
                self._ignored.add(acl)
                _LOGGER.warning("ignored an ACL binding of a newer version: %s", acl)


def _differences(
    before: Mapping[str, AclBinding], after: Mapping[str, AclBinding]
) -> Iterator[Entry]:
    for key in before:
        if key not in after:
            yield Entry(EntryKind.ACL, key, None)
    for key, acl in after.items():
        if key not in before:
            yield Entry(EntryKind.ACL, key, acl.to_value())


def _decode(received: Undecoded) -> tuple[AclBinding, ...]:
    """Decode a response, in another thread than the event loop's. Raises ApiError."""
    frame, at, version = received
    response, _ = decode(m.DescribeAclsResponse, version, frame, at, ELEMENTS_MAX)
    return bindings_of(response)
