"""Topics that the principal may not describe: brokers leave their offsets out of the
responses without a sign (A-50).

Nothing tells which topics are left out, and only the right to describe a topic by its
name can be tested. So operations say that offsets may be missing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from typing import Final

from coterie import client
from coterie.auth.acl import USER
from coterie.errors import CoterieError, code_of
from coterie.types import GroupId, TopicPartition

LEFT_OUT: Final = (
    "this principal may not describe all topics: offsets of the others, if any, are"
    " left out"
)
"""The warning of an operation on the offsets that were read."""
DELETED_UNSEEN: Final = (
    "this principal may not describe all topics: offsets of the others, if any, are"
    " deleted with the group, are not in the snapshot, and cannot be restored by undo"
)
NOT_IN_SNAPSHOT: Final = (
    "the principal of the write could not describe all topics: offsets of the others,"
    " if any, are not in the snapshot and are not restored"
)
_DENIED: Final = client.AclBindingFilter(
    resource_type=client.ResourceType.TOPIC, permission=client.PermissionType.DENY
)


async def may_hide_topics(
    admin: client.AdminClient, group_ids: Collection[GroupId]
) -> bool:
    """Return whether the principal may not describe some topics, as far as known.

    The right to describe any topic is tested with the name of a topic that does not
    exist, and offsets of one of the groups. Bindings that deny single topics are only
    known to principals that may list them. Raises ClientError.
    """
    if not group_ids:
        return False
    is_refused, is_denied = await asyncio.gather(
        _is_any_topic_refused(admin, min(group_ids)), _is_any_topic_denied(admin)
    )
    return is_refused or is_denied


async def _is_any_topic_refused(admin: client.AdminClient, group_id: GroupId) -> bool:
    probe = TopicPartition(f"coterie-{secrets.token_hex(16)}", 0)
    error: CoterieError | None
    fetched = await admin.group_offsets.fetch_many({group_id: [probe]})
    if group_id in fetched.values:
        error = fetched.values[group_id].errors.get(probe)
    else:  # a share group, whose offsets have another API
        error = (await admin.topics.describe([probe.topic])).errors.get(probe.topic)
    return code_of(error) is client.ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def _is_any_topic_denied(admin: client.AdminClient) -> bool:
    try:
        bindings = await admin.acls.describe(_DENIED)
    except CoterieError:  # no right to list bindings, or a broker without any
        return False
    denied = {
        str(each.principal)
        for each in bindings
        if each.operation in {client.Operation.ALL, client.Operation.DESCRIBE}
    }
    if not denied:
        return False
    principal = _principal(admin.cluster.options)
    return principal is None or bool(denied & {f"{USER}:*", principal})


def _principal(options: client.ClientOptions) -> str | None:
    """Return the usual name of the client's principal; None if only brokers know it."""
    if isinstance(options.sasl, client.Plain | client.Scram):
        return f"{USER}:{options.sasl.username}"
    if options.sasl is None and options.ssl is None:
        return f"{USER}:ANONYMOUS"
    return None
