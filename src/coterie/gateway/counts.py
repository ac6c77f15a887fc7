"""Counters of a gateway node, which its parts increment and /metrics and /status show.

Parts take a `GatewayCounts` as argument. The two callbacks observe durations in
seconds; a node without metrics leaves them as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class GatewayCounts:
    """What happened on one node since its start."""

    takeovers: int = 0
    """Shards that became active here."""
    failed_takeovers: int = 0
    """Shards that were assigned here and could not be loaded."""
    fenced: int = 0
    """Times that upstream refused a shard's writes because of a newer owner."""
    lapsed_leases: int = 0
    """Times that the node gave up all shards without having been told to."""
    produce_retries: int = 0
    """Batches that were sent to upstream more than once."""
    bytes_to_upstream: int = 0
    """Bytes of clients' requests that were forwarded."""
    bytes_to_clients: int = 0
    """Bytes of upstream's responses that were forwarded."""
    adoptions: Counter[str] = field(default_factory=Counter)
    """Groups that were looked up upstream: "adopted", "absent" or "refused"."""
    mirrored: Counter[str] = field(default_factory=Counter)
    """Offsets that were "committed" or "deleted" upstream, and groups whose changes
    "failed" and are tried again."""
    observe_takeover: Callable[[float], None] = lambda _: None
    """A callback with the time from a shard's assignment until it is active."""
    observe_produce: Callable[[float], None] = lambda _: None
    """A callback with the time from sending a batch until upstream's answer."""
