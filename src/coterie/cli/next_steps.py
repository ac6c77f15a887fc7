"""Notes that say what to do after a failure, the same for every command.

A name that does not exist is compared with those of the cluster, which are listed only
then. An address that cannot be reached leads to `coterie config check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from coterie import client
from coterie.cli.output.outcome import Outcome
from coterie.client import settings
from coterie.errors import CoterieError

_GROUP: Final = "group"
_TOPIC: Final = "topic"
_MISSING: Final = {
    "GROUP_ID_NOT_FOUND": _GROUP,
    "UNKNOWN_TOPIC_OR_PARTITION": _TOPIC,
}
"""Errors of names that do not exist, and the kind of failure that names one."""
_NAMES_MAX: Final = 3
"""Missing names that get a note; more of them are not typing errors."""
_UNREACHED: Final = "ConnectionLost"


async def with_next_steps(admin: client.AdminClient, outcome: Outcome) -> Outcome:
    """Return the outcome with a note for each group and topic that does not exist."""
    missing = list(dict.fromkeys(_missing(outcome)))
    if not 0 < len(missing) <= _NAMES_MAX:
        return outcome
    try:
        known = {
            kind: await _names(admin, kind) for kind in {kind for kind, _ in missing}
        }
    except CoterieError:  # the failure itself is reported
        return outcome
    notes = (
        _of_missing(kind, name, known[kind])
        for kind, name in missing
        if name not in known[kind]
    )
    return outcome._replace(notes=(*outcome.notes, *notes))


def with_connection_step(outcome: Outcome) -> Outcome:
    """Return the outcome of a run that failed, with a note if it reached no broker."""
    if any(each.code == _UNREACHED for each in outcome.failures):
        note = "`coterie config check` tries each step of a connection"
        return outcome._replace(notes=(*outcome.notes, note))
    return outcome


def _missing(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of what does not exist.

    A topic of an item is no typing error: groups keep commits for deleted topics.
    """
    for failure in outcome.failures:
        if failure.id and _MISSING.get(failure.code) == failure.kind:
            yield failure.kind, failure.id
    for item in outcome.items:
        error, name = item.get("error"), item.get("group_id")
        if isinstance(error, dict) and _MISSING.get(str(error.get("code"))) == _GROUP:
            yield _GROUP, str(name)


async def _names(admin: client.AdminClient, kind: str) -> set[str]:
    if kind == _GROUP:
        return {each.group_id for each in (await admin.groups.list()).groups}
    return set((await admin.topics.describe()).values)


def _of_missing(kind: str, name: str, known: Iterable[str]) -> str:
    near = settings.nearest(name, known)
    step = (
        f"did you mean {near!r}?"
        if near is not None
        else f"`coterie {kind}s list` shows all"
    )
    return f"there is no {kind} {name!r}: {step}"
