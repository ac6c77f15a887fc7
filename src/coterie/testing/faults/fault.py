"""A fault: the requests that it matches, how many of them, and those that it hit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypedDict

from coterie.broker import Handler
from coterie.testing.faults.recorded_call import RecordedCall
from coterie.testing.recorder import WAIT_S, Filter, RecordedRequest

HITS_MAX: Final = 10_000
"""The largest number of requests that `Fault.hits` keeps: the first ones."""
_SHOWN_MAX: Final = 20
"""The largest number of requests that an error message lists."""


class Matching(TypedDict, total=False):
    """The requests that a fault matches; without a key every request does.

    `member` is a member id or a group instance id. `after` requests pass first, and
    then `times` are hit; None means until the fault is removed. `required` makes the
    end of a `with` block raise AssertionError when the fault hit no request.
    """

    group: str | None
    client_id: str | None
    topic: str | None
    member: str | None
    transactional_id: str | None
    times: int | None
    after: int
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`Matching` with its defaults."""

    filter: Filter
    times: int | None
    after: int
    required: bool


def rule_of(
    api: str | tuple[str, ...] | None, matching: Matching, *, required: bool
) -> Rule:
    """Return the rule for requests of an API, or of all APIs for None.

    Raises TypeError for an unknown key and ValueError for an unknown API.
    """
    options: dict[str, Any] = dict(matching)
    times, after = options.pop("times", None), options.pop("after", 0)
    is_required = options.pop("required", required)
    if (times is not None and times < 1) or after < 0:
        raise ValueError(f"times={times}, after={after}: at least 1 and 0")
    return Rule(
        filter=Filter(api=api, **options),
        times=times,
        after=after,
        required=is_required,
    )


class Fault:
    """A fault that is active from its creation until `remove`, or the end of `with`.

    `hits` are the requests that it hit. A `with` block that ends without an error
    raises AssertionError when a `required` fault hit nothing: a filter with a typing
    error would otherwise make the test pass without a fault.
    """

    name = "fault"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.hits: list[RecordedRequest] = []
        self.hit_count = 0
        """The number of requests that the fault hit, of which `hits` has the first."""
        self.arguments: dict[str, str | int | bool | None] = {}
        """The arguments of the call that made the fault."""
        self.number = 0
        """The number of the fault among those of its server."""
        self._changed = threading.Condition()
        self._matched = 0
        self._remove: Callable[[Fault], None] | None = None
        self._missed: Callable[[], list[RecordedRequest]] = list

    def activate(
        self,
        number: int,
        remove: Callable[[Fault], None],
        requests_since: Callable[[], list[RecordedRequest]],
    ) -> None:
        """Set the callbacks; called by the registry."""
        self.number = number
        self._remove, self._missed = remove, requests_since

    @property
    def hit(self) -> bool:
        """Whether the fault hit a request."""
        return self.hit_count > 0

    def wait_for_hit(self, count: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until the fault hit `count` requests. Raises AssertionError after
        `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self.hit_count < count:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise AssertionError(
                        f"{self.hit_count} of {count} hits within {timeout_s:g} s; "
                        f"{self._explain()}"
                    )
                self._changed.wait(left_s)

    def remove(self) -> None:
        """End the fault. May be repeated."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
        if error is None and self.rule.required and not self.hit:
            raise AssertionError(self._explain())

    def _explain(self) -> str:
        requests = self._missed()
        listed = "".join(f"\n  {each}" for each in requests[-_SHOWN_MAX:])
        what = f"{self.name}({self.rule.filter})"
        if not requests:
            return f"{what} hit no request: none arrived"
        return f"{what} hit {self.hit_count} requests; these arrived:{listed}"

    # Called in the server's event loop.

    def claim(self, recorded: RecordedRequest) -> bool:
        """Return whether the fault hits a request; count it."""
        rule = self.rule
        if not rule.filter.matches(recorded):
            return False
        with self._changed:
            self._matched += 1
            if self._matched <= rule.after or (
                rule.times is not None and self.hit_count >= rule.times
            ):
                return False
        self.add_hit(recorded)
        return True

    def add_hit(self, recorded: RecordedRequest) -> None:
        """Record a request that the fault hit."""
        with self._changed:
            self.hit_count += 1
            if len(self.hits) < HITS_MAX:
                self.hits.append(recorded)
            self._changed.notify_all()

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        """Handle a request that the fault hit."""
        raise NotImplementedError

    def observe(self, recorded: RecordedRequest) -> None:
        """Process a request that is done, of whatever fault."""

    def end(self) -> None:
        """Undo the fault's effect on the server; called once, after it was removed."""


class ServerFault(Fault):
    """A fault of the server's state. It lets requests pass, and its hits are those that
    were answered with one of `errors`."""

    def __init__(self, rule: Rule, *errors: str) -> None:
        super().__init__(rule)
        self._errors = frozenset(errors)

    def claim(self, recorded: RecordedRequest) -> bool:
        return False

    def observe(self, recorded: RecordedRequest) -> None:
        if not self._errors.isdisjoint(recorded.errors) and self.rule.filter.matches(
            recorded
        ):
            recorded.fault = recorded.fault or self.name
            self.add_hit(recorded)
