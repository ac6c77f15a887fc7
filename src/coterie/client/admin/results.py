"""Answers about many things at once: what was found of each, or why it was not.

One deleted topic or one dead broker hides nothing else: every item carries its own
error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from coterie.errors import CoterieError, MalformedFrame

K = TypeVar("K")
V = TypeVar("V")

Progress: TypeAlias = Callable[[int, int], None]
"""Is told, now and then, how many items are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Results(Generic[K, V]):
    """One outcome for each key that was asked about: in `values` or in `errors`."""

    values: Mapping[K, V] = field(default_factory=dict)
    errors: Mapping[K, CoterieError] = field(default_factory=dict)

    def one(self, key: K) -> V:
        """The value of a key; raises its error when it has one."""
        if key in self.errors:
            raise self.errors[key]
        return self.values[key]

    def all(self) -> Mapping[K, V]:
        """Every value; raises the first error when there is any."""
        for error in self.errors.values():
            raise error
        return self.values


def results_of(
    wanted: Iterable[K], said: Mapping[K, V | CoterieError]
) -> Results[K, V]:
    """The outcome of each key that was asked about, in that order. What a broker left
    out of its answer is an error, too."""
    values: dict[K, V] = {}
    errors: dict[K, CoterieError] = {}
    for key in wanted:
        if key not in said:
            errors[key] = MalformedFrame(f"the broker left {key} out of its answer")
            continue
        outcome = said[key]
        if isinstance(outcome, CoterieError):
            errors[key] = outcome
        else:
            values[key] = outcome
    return Results(values, errors)
