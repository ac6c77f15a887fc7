"""Subscriptions by regular expression: RE2, as Kafka has RE2/J (E14-02, I-14).

RE2 takes time linear in the name whatever the expression says, so that no member can
stop the server with one; what would take longer, it refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import re2

from coterie.errors import ApiError
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False  # who sent the expression is told what is wrong with it
    options.never_capture = True
    return options


_OPTIONS: Final = _options()


def check_regex(text: str) -> None:
    """Refuse what is no regular expression.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION, with the engine's words (E14-04).
    """
    assert text, "no expression is no subscription (E14-12)"
    try:
        re2.compile(text, _OPTIONS)
    except re2.error as error:
        (what,) = error.args
        reason = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: "
            f"{reason}.",
        ) from None


def matching(
    regexes: Collection[str], topic_names: Iterable[TopicName]
) -> dict[str, list[TopicName]]:
    """The topics each expression matches, sorted: whole names, internal topics too
    (E14-03, E14-09).

    An expression that is none matches nothing: another server wrote it to the log.
    """
    names = sorted(topic_names)
    ordered = list(regexes)
    together = _as_set(ordered)
    if together is None:
        return {regex: _one_by_one(regex, names) for regex in ordered}
    found: dict[str, list[TopicName]] = {regex: [] for regex in ordered}
    for name in names:
        for at in together.Match(name) or ():
            found[ordered[at]].append(name)
    return found


def _as_set(regexes: Collection[str]) -> re2.Set | None:
    """The expressions as one automaton, which looks at a name once for all of them;
    None when it would be too large."""
    together = re2.Set.FullMatchSet(_OPTIONS)
    try:
        for regex in regexes:
            together.Add(regex)
        together.Compile()
    except re2.error:
        return None
    return together


def _one_by_one(regex: str, names: Iterable[TopicName]) -> list[TopicName]:
    try:
        compiled = re2.compile(regex, _OPTIONS)
    except re2.error:
        return []
    return [name for name in names if compiled.fullmatch(name)]
