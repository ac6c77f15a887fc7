"""The interface of the upstream cluster's log, as the shards of a node use it.

`client.UpstreamClient` is the implementation on sockets; the simulation has another.
Every call returns at once and calls `done` exactly once, later and in the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from coterie.errors import CoterieError
from coterie.types import LogOffset
from coterie.wire.record_batch import Producer


class Fetched(NamedTuple):
    """Batches of a partition. The first one contains the requested offset or follows
    it; the last one may be incomplete."""

    batches: bytes
    high_watermark: LogOffset


Initialized = Callable[[Producer | CoterieError], None]
"""A callback with a producer id and its epoch, or an error."""
Produced = Callable[[LogOffset | CoterieError], None]
"""A callback with the offset of a batch's first record, or an error."""
FetchDone = Callable[[Fetched | CoterieError], None]


class Upstream(Protocol):
    """The log topic of a gateway in the upstream cluster; partition i is shard i."""

    def init_producer_id(self, transactional_id: str, done: Initialized) -> None:
        """Get the producer id of a transactional id, with its epoch incremented."""

    def produce(
        self,
        partition: int,
        batch: bytes,
        done: Produced,
        *,
        transactional_id: str | None = None,
    ) -> None:
        """Append a batch with acks=all.

        Batches of a partition are sent in the order of the calls, and those of one loop
        iteration to one leader share a request. `done` gets the base offset, -1 when
        the broker does not return it; ApiError when the batch was refused;
        ConnectionLost or RequestTimedOut when the outcome is unknown.
        """

    def fetch(
        self, partition: int, offset: LogOffset, done: FetchDone, *, wait_ms: int = 0
    ) -> None:
        """Fetch from an offset on, read_uncommitted; wait up to `wait_ms` for a batch.

        ApiError with OFFSET_OUT_OF_RANGE for an offset before the log start or beyond
        the end.
        """
