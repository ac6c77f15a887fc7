"""The principal of a client certificate: distinguished names and mapping rules
(KIP-371).

The distinguished name is formatted exactly as Java does (RFC 2253), because mapping
rules and ACL bindings are written for that form: the last part first, the nine
attributes of the RFC by name, all others by object identifier with the value in hex.
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
    """Return the distinguished name of a certificate's subject.

    Raises ValueError when the bytes are not a certificate in DER.
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
    """A mapping rule. Without a pattern (DEFAULT) it returns every name unchanged."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name, or None when the rule does not match."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self._expand, name)
        if self.case == "L":
            return mapped.lower()
        return mapped.upper() if self.case == "U" else mapped

    def _expand(self, match: re.Match[str]) -> str:
        """Return the replacement with "$1" expanded as Java does.

        If the pattern has no group with that number, trailing digits are read as text
        until the group exists; if none exists, the reference stays unchanged.
        """

        def fill(mark: re.Match[str]) -> str:
            if mark[1] is not None:
                return mark[1]
            number, rest = mark[2], ""
            while number and int(number) > match.re.groups:
                number, rest = number[:-1], number[-1] + rest
            return mark[0] if not number else (match[int(number)] or "") + rest

        return _REPLACEMENT.sub(fill, self.replacement)


class PrincipalRules:
    """The rules of `ssl.principal.mapping.rules`; the first that matches applies.

    Raises SettingError when the text is not a list of rules.
    """

    def __init__(self, text: str) -> None:
        matches = _RULE_SPLITTER.finditer(text.strip())
        self._rules = [rule for each in matches for rule in _parse(each[1])]

    def apply(self, name: str) -> str:
        """Return the principal's name. Raises ValueError when no rule matches."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return mapped
        raise ValueError(f"no rule of ssl.principal.mapping.rules matches {name}")


def _parse(text: str) -> Sequence[Rule]:
    match = _RULE_PARSER.match(text)
    assert match is not None, "the last alternative matches everything"
    if match.end() != len(text):
        raise SettingError(
            f"ssl.principal.mapping.rules: {text!r} is not a rule; write for example "
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
            f"ssl.principal.mapping.rules: invalid regular expression {match[2]!r}: "
            f"{error}"
        ) from None
