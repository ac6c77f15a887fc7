"""What the catalog keeps on disk: one entry for each thing, with its whole value.

An entry replaces the one of the same kind and name; a value of None takes it away. So
the catalog's store is always compact: it holds what is, not how it came about. The
entries live beside the log (`Log.put`) and become durable in the same flush as the
records they belong with. A value is a JSON object, to be read with any SQLite shell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coterie.errors import LogCorrupt

_SPACE_PREFIX: Final = "catalog/"


class Kind(StrEnum):
    """What an entry is about; its name is given in brackets."""

    TOPIC = "topic"
    """A topic [its name]."""
    BROKER_CONFIG = "broker-config"
    """A setting changed while running [the setting's Kafka name]."""
    GROUP_CONFIG = "group-config"
    """The configurations of a group, which need not exist [its group id]."""
    ACL = "acl"
    """A binding of access control lists [all of it; the value says the same]."""
    PRODUCER_IDS = "producer-ids"
    """The first producer id not handed out in a block yet ["next"]."""
    SCRAM_CREDENTIAL = "scram-credential"
    """What is kept of a user's password [the mechanism, "/", the user's name]."""
    TRANSACTION = "transaction"
    """A transactional producer [its transactional id]."""


class Entry(NamedTuple):
    """One durable fact of the catalog."""

    kind: Kind
    name: str
    value: Mapping[str, Any] | None

    @property
    def space(self) -> str:
        """The space of the log's key-value store it is kept in."""
        return space_of(self.kind)

    def encode(self) -> tuple[bytes, bytes | None]:
        """Its key and value as bytes."""
        if self.value is None:
            return self.name.encode(), None
        text = json.dumps(self.value, separators=(",", ":"), sort_keys=True)
        return self.name.encode(), text.encode()


def space_of(kind: Kind) -> str:
    """The space that entries of this kind are kept in."""
    return _SPACE_PREFIX + kind


def decode_entry(kind: Kind, key: bytes, value: bytes) -> Entry:
    """Read an entry back. Raises LogCorrupt if it is not one."""
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise LogCorrupt(f"catalog {kind} {key!r} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise LogCorrupt(f"catalog {kind} {key!r} is not a JSON object")
    return Entry(kind, key.decode(), parsed)
