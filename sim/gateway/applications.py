"""Applications that commit offsets in transactions through the nodes, as the
transactional producers of clients do: a commit that is not answered, or refused with a
retriable error, is repeated. A transaction commits only if all its commits were
acknowledged; after one without an answer it aborts, and the producer gets a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.gateway.coordinator import AppTransaction, TransactionCoordinator
from sim.members.member import REQUEST_TIMEOUT_MS, Member, MemberEnvironment
from sim.network import Call, Caller
from sim.transactions import Producers

_APPLICATIONS: Final = 3
_TRIES: Final = 4
_RETRY_MS: Final = 200
_LASTS_MS: Final = 4_000
_COMMITS_MAX: Final = 3
_ADDS_SINCE: Final = 5
"""The version of TxnOffsetCommit that adds the partition to the transaction."""
_VERSIONS_1: Final = (3, 4)
_VERSIONS_2: Final = (5, 6)
_ADD_OFFSETS_VERSION: Final = 3
_RETRIED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class _Run:
    """A transaction of an application, as the application sees it."""

    def __init__(self, transactional_id: str, transaction: AppTransaction) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.unanswered = 0
        """The commits without a result."""
        self.has_failed = False
        self.is_uncertain = False
        """Whether a commit got no answer."""
        self.is_ending = False


class Applications(Producers):
    """All applications, with one open transaction each at most."""

    def __init__(
        self,
        environment: MemberEnvironment,
        coordinator: TransactionCoordinator,
        late_ends: float,
        more: Random,
    ) -> None:
        super().__init__(environment, lambda: None)
        self._coordinator = coordinator
        self._late_ends = late_ends
        self._more = more
        self._has_epochs = coordinator.bumps_epoch
        self._runs: dict[str, _Run] = {}
        self._has_stopped = False
        self._of_epoch: dict[tuple[int, int], AppTransaction] = {}

    def transaction_of(self, request: m.TxnOffsetCommitRequest) -> AppTransaction:
        """Return the transaction that a commit belongs to."""
        return self._of_epoch[request.producer_id, request.producer_epoch]

    def transact(self, groups: Sequence[GroupId], members: Sequence[Member]) -> None:
        """Run a transaction of an application, with commits to some groups, as some
        member or without one; soon after it often another one.
        """
        rng = self._environment.rng
        transactional_id = f"p{rng.randrange(_APPLICATIONS)}"
        for _ in range(rng.randint(1, 3)):
            self._begin(transactional_id, groups, members)
            transactional_id = f"p{rng.randrange(_APPLICATIONS)}"

    def _begin(
        self,
        transactional_id: str,
        groups: Sequence[GroupId],
        members: Sequence[Member],
        times: int = 2,
    ) -> None:
        rng, clock = self._environment.rng, self._environment.clock
        run = self._runs.get(transactional_id)
        if self._has_stopped or (run is not None and run.transaction.is_open):
            return
        if run is not None and run.transaction.is_ended_by_another:
            self._fence(run)
        transaction = self._coordinator.begin(transactional_id)
        if transaction is None:
            return
        key = transaction.producer_id, transaction.producer_epoch
        self._of_epoch[key] = transaction
        run = self._runs[transactional_id] = _Run(transactional_id, transaction)
        self._note(run, "begins a transaction of epoch", transaction.producer_epoch)
        longest_ms = rng.choice((100, _LASTS_MS))
        for _ in range(rng.randint(1, _COMMITS_MAX)):
            group_id = rng.choice(groups)
            mine = [each for each in members if each.group_id == group_id]
            member = rng.choice(mine) if mine and rng.random() < 0.3 else None
            commit = partial(self._begin_commit, run, group_id, member)
            clock.after(rng.randint(0, longest_ms), commit)
            clock.after(rng.randint(0, 2 * longest_ms), partial(self.fetch, group_id))
        end = partial(self._finish, run, commits=rng.random() < 0.7)
        clock.after(rng.randint(longest_ms, 2 * longest_ms), end)
        if times:
            again = partial(self._begin, transactional_id, groups, members, times - 1)
            clock.after(2 * longest_ms + rng.randint(0, 1_000), again)

    def end_all(self) -> None:
        """Abort all open transactions, and begin no more."""
        self._has_stopped = True
        for transactional_id in self._runs:
            self._coordinator.end(transactional_id, commits=False, fences=True)

    def fence(self) -> None:
        """Abort an open transaction, as when another instance of an application
        starts or a transaction takes too long.
        """
        if self._runs:
            transactional_id = self._environment.rng.choice(sorted(self._runs))
            self._note(self._runs[transactional_id], "is fenced")
            self._coordinator.end(transactional_id, commits=False, fences=True)

    # Commits.

    def _begin_commit(
        self, run: _Run, group_id: GroupId, member: Member | None
    ) -> None:
        rng, topics = self._environment.rng, self._environment.topics
        if run.is_ending or not run.transaction.is_open or not topics.known:
            return
        version = rng.choice(_VERSIONS_2 if self._has_epochs else _VERSIONS_1)
        request = self._commit_request(run.transaction, group_id, member, version)
        request.transactional_id = run.transactional_id
        run.unanswered += 1
        if version >= _ADDS_SINCE:
            self._send(run, request, version)
        else:
            self._add_offsets(run, request, version)

    def _add_offsets(
        self, run: _Run, request: m.TxnOffsetCommitRequest, version: int
    ) -> None:
        adds = m.AddOffsetsToTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            group_id=request.group_id,
        )
        self._try(
            run,
            request.group_id,
            lambda: adds,
            _ADD_OFFSETS_VERSION,
            lambda: self._send(run, request, version),
        )

    def _send(self, run: _Run, request: m.TxnOffsetCommitRequest, version: int) -> None:
        def committed() -> None:
            run.unanswered -= 1

        def copy() -> m.TxnOffsetCommitRequest:
            """Return a copy: handlers change the request."""
            return m.TxnOffsetCommitRequest(
                transactional_id=request.transactional_id,
                group_id=request.group_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                generation_id_or_member_epoch=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                topics=list(request.topics),
            )

        self._try(run, request.group_id, copy, version, committed)

    def _try(
        self,
        run: _Run,
        group_id: GroupId,
        make: Callable[[], Any],
        version: int,
        succeeded: Callable[[], None],
        tries: int = _TRIES,
    ) -> None:
        """Send a request until it succeeds or fails for good."""
        if not run.transaction.is_open or not tries:
            run.has_failed = True
            return

        def again() -> None:
            self._try(run, group_id, make, version, succeeded, tries - 1)

        def answered(response: Any) -> None:
            codes = _codes(response)
            if not codes:
                succeeded()
            elif codes <= set(_RETRIED):
                self._environment.clock.after(_RETRY_MS, again)
            else:
                run.has_failed = True

        def failed() -> None:
            run.is_uncertain = True
            again()

        who = run.transactional_id
        call = Call(who, group_id, make(), Caller(version, who), answered, failed)
        self._environment.network.call(call, REQUEST_TIMEOUT_MS)

    def _finish(self, run: _Run, *, commits: bool) -> None:
        run.is_ending = True
        if not run.transaction.is_open:
            return
        if run.unanswered or run.has_failed:
            commits = False
        fences = run.is_uncertain or bool(run.unanswered)
        self._note(run, "commits" if commits else "aborts")
        epoch = run.transaction.producer_epoch
        self._coordinator.end(run.transactional_id, commits=commits, fences=fences)
        if self._more.random() < self._late_ends:
            again = partial(self._end_again, run, epoch, commits=commits)
            delay_ms = self._more.choice((500, _LASTS_MS))
            self._environment.clock.after(self._more.randint(1, delay_ms), again)

    def _end_again(self, run: _Run, epoch: int, *, commits: bool) -> None:
        self._note(run, "'s EndTxn arrives again")
        self._coordinator.end_again(run.transactional_id, epoch, commits=commits)

    def _fence(self, run: _Run) -> None:
        """Call InitProducerId, as after the error that the transaction has ended."""
        self._coordinator.fence(run.transactional_id)
        run.transaction.is_ended_by_another = False

    def _note(self, run: _Run, what: str, *args: object) -> None:
        now_ms = self._environment.clock.now_ms
        self._environment.transcript.add(now_ms, run.transactional_id, what, *args)


def _codes(response: Any) -> set[int]:
    if isinstance(getattr(response, "error_code", None), int):
        return {response.error_code} - {0}
    return {
        each.error_code for topic in response.topics for each in topic.partitions
    } - {0}
