"""Fresh ids from the system's randomness: where the pure parts get theirs."""

from __future__ import annotations

import secrets
import uuid

from coterie.catalog.topics import is_usable_id
from coterie.types import TopicId


def fresh_topic_id() -> TopicId:
    """A random topic id, never a reserved one (G1-10)."""
    while True:
        fresh = uuid.uuid4().bytes
        assert len(fresh) == 16
        if is_usable_id(fresh):
            return fresh


def fresh_session_id() -> int:
    """A random fetch session id; the cache asks again for one that is taken."""
    return secrets.randbelow(2**31 - 1) + 1
