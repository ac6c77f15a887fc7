"""The entries of the catalog: one for each object, with its complete value.

An entry replaces the previous one of the same kind and name; a value of None deletes
it. The store therefore contains the current state and no history. Entries are stored
beside the log (`Log.put`) and become durable in the same flush as the records that
belong to them. A value is a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coterie.errors import ApiError, LogCorrupt
from coterie.wire.error_codes import ErrorCode

CHANGES_PER_REQUEST_MAX: Final = 10_000
"""Kafka's `QuorumController.MAX_RECORDS_PER_USER_OP`."""
_SPACE_PREFIX: Final = "catalog/"


class EntryKind(StrEnum):
    """The kinds of entries; in brackets the meaning of an entry's name."""

    TOPIC = "topic"
    """A topic [the topic's name]."""
    BROKER_CONFIG = "broker-config"
    """A dynamic broker configuration [the configuration's name]."""
    GROUP_CONFIG = "group-config"
    """The configurations of a group, which need not exist [the group id]."""
    ACL = "acl"
    """An ACL binding [its fields, as in the value]."""
    PRODUCER_IDS = "producer-ids"
    """The first producer id that no block contains yet ["next"]."""
    SCRAM_CREDENTIAL = "scram-credential"
    """A SCRAM credential of a user [the mechanism, "/", the user's name]."""
    CLIENT_QUOTA = "client-quota"
    """The quotas of an entity [its types and names, as JSON]."""
    TRANSACTION = "transaction"
    """A transactional producer [the transactional id]."""


class Entry(NamedTuple):
    """The current value of one object, or its deletion."""

    kind: EntryKind
    name: str
    value: Mapping[str, Any] | None

    @property
    def space(self) -> str:
        """The namespace in the log's key-value store."""
        return space_of(self.kind)

    def encode(self) -> tuple[bytes, bytes | None]:
        """Encode key and value for the log's key-value store."""
        if self.value is None:
            return self.name.encode(), None
        text = json.dumps(self.value, separators=(",", ":"), sort_keys=True)
        return self.name.encode(), text.encode()


def too_many_changes() -> ApiError:
    """Return the error for a request of more than `CHANGES_PER_REQUEST_MAX` changes."""
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        "Unable to perform excessively large batch operation.",
    )


def no_room(kind: EntryKind) -> ApiError:
    """Return the error for an entry beyond `catalog.max.entries`."""
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"There are as many entries of kind {kind} as catalog.max.entries allows: "
        "delete some or raise the limit.",
    )


def space_of(kind: EntryKind) -> str:
    """Return the namespace of entries of this kind."""
    return _SPACE_PREFIX + kind


def decode_entry(kind: EntryKind, key: bytes, value: bytes) -> Entry:
    """Decode a stored entry. Raises LogCorrupt when it is not a JSON object."""
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise LogCorrupt(f"catalog {kind} {key!r} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise LogCorrupt(f"catalog {kind} {key!r} is not a JSON object")
    return Entry(kind, key.decode(), parsed)
