"""Whom a client's certificate names: its distinguished name as Kafka writes it, and the
rules that make a principal of that (KIP-371).

The name is written as RFC 2253 has it and as Java does, letter for letter, since rules
and access control lists are made for that form: the last part first, only the nine
attributes of the RFC by their names, and all others by number with the value in hex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from asn1crypto.x509 import Certificate

from coterie.errors import SettingError

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SPECIAL: Final = re.compile(r'[,=+<>#;"\\]')
_EDGES: Final = re.compile(r"^[ \r]+|[ \r]+$")

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_RULE_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_RULE_PARSER: Final = re.compile(_RULE)
_REPLACEMENT: Final = re.compile(r"\\(.)|\$(\d+)")


def distinguished_name(certificate: bytes) -> str:
    """The name of a certificate's subject.

    Raises ValueError for bytes that are no certificate (DER).
    """
    subject = Certificate.load(certificate).subject.chosen
    parts = ["+".join(map(_attribute, each)) for each in subject]
    return ",".join(reversed(parts))


def _attribute(attribute: Any) -> str:
    number: str = attribute["type"].dotted
    value = attribute["value"]
    name = _NAMES.get(number)
    text = value.native
    if name is None or not isinstance(text, str):
        return f"{number}=#{value.dump().hex()}"
    escaped = _SPECIAL.sub(r"\\\g<0>", text).replace("\0", r"\00")
    escaped = _EDGES.sub(lambda edge: re.sub(".", r"\\\g<0>", edge[0]), escaped)
    return f"{name}={escaped}"


class Rule(NamedTuple):
    """One rule. Without a pattern it takes every name as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """What the rule makes of a name; None when it does not match."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        made = self.pattern.sub(self._filled, name)
        if self.case == "L":
            return made.lower()
        return made.upper() if self.case == "U" else made

    def _filled(self, match: re.Match[str]) -> str:
        """The replacement with its "$1"; a number that no group has stays as it is."""

        def fill(mark: re.Match[str]) -> str:
            if mark[1] is not None:
                return mark[1]
            number, rest = mark[2], ""
            while number and int(number) > match.re.groups:
                number, rest = number[:-1], number[-1] + rest
            return mark[0] if not number else (match[int(number)] or "") + rest

        return _REPLACEMENT.sub(fill, self.replacement)


class PrincipalRules:
    """`ssl.principal.mapping.rules`: the first rule that matches a name counts.

    Raises SettingError for what are no rules.
    """

    def __init__(self, text: str) -> None:
        found = _RULE_SPLITTER.finditer(text.strip())
        self._rules = [made for each in found for made in _parse(each[1])]

    def apply(self, name: str) -> str:
        """The name of the principal. Raises ValueError when no rule matches."""
        for rule in self._rules:
            made = rule.apply(name)
            if made is not None:
                return made
        raise ValueError(f"no rule of ssl.principal.mapping.rules matches {name}")


def _parse(text: str) -> Sequence[Rule]:
    match = _RULE_PARSER.match(text)
    assert match is not None, "the last alternative matches everything"
    if match.end() != len(text):
        raise SettingError(
            f"ssl.principal.mapping.rules: {text!r} is no rule; write for example "
            "RULE:^CN=([^,]+),.*$/$1/L or DEFAULT"
        )
    if match[1] is not None:
        return [Rule()]
    if match[2] is None:
        return []
    try:
        return [Rule(re.compile(match[2]), match[3], match[4])]
    except re.error as error:
        raise SettingError(
            f"ssl.principal.mapping.rules: {match[2]!r} is no regular expression: "
            f"{error}"
        ) from None
