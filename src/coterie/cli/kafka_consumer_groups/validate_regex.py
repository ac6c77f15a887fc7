"""`--validate-regex`: whether brokers would take a subscription (RE2's syntax)."""

from __future__ import annotations

from typing import Final

from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.report import Report, said

_AS_RE2J: Final = (
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("missing ]", "missing closing ]"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid named capture group", "invalid named capture"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
)
"""What the same engine says in C++, and in Java."""


def run(line: CommandLine) -> Report:
    """Say whether it is valid, and why not; an invalid one is a failure here."""
    import re2

    text = line.one("validate-regex") or ""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        (what,) = error.args
        told = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
        reason = next((ours for cpp, ours in _AS_RE2J if told.startswith(cpp)), told)
        verdict = said(f"The regular expression `{text}` is invalid: {reason}.\n")
        return Report(verdict.parts, failed=True)
    return said(f"The regular expression `{text}` is valid.\n")
