"""What became of transactions, as a broker tells it with the batches (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from coterie.client.log_fetch import Aborted
from coterie.pipeline.sources.outcomes import Outcomes
from coterie.wire.record_batch import BatchHeader


class ToldOutcomes(Outcomes):
    """Answers for transactional batches, asked in log order: one of a transaction that
    is not among the aborted ones is committed, as nothing beyond the last stable
    offset is read."""

    def __init__(self) -> None:
        super().__init__(iter(()))
        self._coming: deque[Aborted] = deque()
        self._aborting: set[int] = set()

    def told(self, aborted: Iterable[Aborted]) -> None:
        """What was aborted among the batches that are asked about from now on."""
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborting = set()

    def of(self, header: BatchHeader) -> str | None:
        """What became of it: "committed" or "aborted"; None for a marker, or a batch of
        no transaction."""
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            self._aborting.add(self._coming.popleft().producer_id)
        if not header.is_transactional:
            return None
        if header.is_control:
            self._aborting.discard(header.producer_id)
            return None
        return "aborted" if header.producer_id in self._aborting else "committed"
