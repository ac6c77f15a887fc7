"""Parsers of `sasl.jaas.config` and of librdkafka's `sasl.oauthbearer.config`, which
contain several settings.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="...";

Rules of this file: no error contains a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from coterie.client.settings import keys
from coterie.errors import SettingError

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'
    |(?P<word>[^\s"'=;]+)|(?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_CLAIM: Final = "unsecuredLoginStringClaim_"


def read_jaas(text: str) -> dict[str, str]:
    """Return the settings in a client's JAAS entry. Raises SettingError."""
    module, options = _entry(list(_tokens(text)))
    name = module.rpartition(".")[2]
    read = _MODULES.get(name)
    if read is None:
        raise SettingError(
            f"the login module {name} is not supported; use "
            f"{', '.join(_MODULES)}, for {', '.join(keys.MECHANISMS)}"
        )
    return read(options)


def read_unsecured(text: str) -> dict[str, str]:
    """Return the settings in librdkafka's "principal=alice scope=a,b
    lifeSeconds=60"."""
    pairs = dict(each.partition("=")[::2] for each in text.split())
    found = {
        keys.UNSECURED: pairs.get("principal", ""),
        keys.SCOPE: pairs.get("scope", "").replace(",", " "),
        keys.UNSECURED_LIFE: pairs.get("lifeSeconds", ""),
        keys.EXTENSIONS: ",".join(
            f"{key.removeprefix('extension_')}={value}"
            for key, value in pairs.items()
            if key.startswith("extension_")
        ),
    }
    return _without_empty(found)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind (word, text or mark) and the text of each token."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SettingError("a quotation in sasl.jaas.config is not closed")
        position = match.end()
        kind = match.lastgroup
        if kind in {"double", "single"}:
            yield "text", _ESCAPE.sub(_unescaped, match[kind])
        elif kind is not None:
            yield kind, match[kind]


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


def _entry(tokens: list[tuple[str, str]]) -> tuple[str, dict[str, str]]:
    """Return the login module and its options."""
    if not tokens or tokens[-1] != ("mark", ";"):
        raise SettingError(
            'sasl.jaas.config lacks its semicolon: MODULE required NAME="VALUE" ... ;'
        )
    (_, module), *rest = tokens[:-1] or [("word", "")]
    if ("mark", ";") in rest:
        raise SettingError("sasl.jaas.config has several entries; a client has one")
    if not rest or rest[0][1].lower() not in _FLAGS:
        raise SettingError('sasl.jaas.config lacks "required" after its module')
    return module, dict(_options(rest[1:]))


def _options(tokens: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for position in range(0, len(tokens), 3):
        match tokens[position : position + 3]:
            case [("word" | "text", name), ("mark", "="), ("word" | "text", value)]:
                yield name, value
            case _:
                raise SettingError(
                    'sasl.jaas.config contains something other than NAME="VALUE" '
                    f"after {position // 3} options"
                )


def _by_password(options: Mapping[str, str]) -> dict[str, str]:
    if options.get("tokenauth", "").lower() == "true":
        raise SettingError(
            "delegation tokens (tokenauth) are not supported; use a SCRAM user"
        )
    found = {
        "sasl.username": options.get("username", ""),
        "sasl.password": options.get("password", ""),
    }
    return _without_empty(found)


def _by_token(options: Mapping[str, str]) -> dict[str, str]:
    found = {
        keys.CLIENT_ID: options.get("clientId", ""),
        keys.CLIENT_SECRET: options.get("clientSecret", ""),
        keys.SCOPE: options.get("scope", ""),
        keys.UNSECURED: options.get(_CLAIM + "sub", ""),
        keys.UNSECURED_LIFE: options.get("unsecuredLoginLifetimeSeconds", ""),
        keys.EXTENSIONS: ",".join(
            f"{name.removeprefix('extension_')}={value}"
            for name, value in options.items()
            if name.startswith("extension_")
        ),
    }
    return _without_empty(found)


def _without_empty(found: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in found.items() if value}


_MODULES: Final[Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]]] = {
    "PlainLoginModule": _by_password,
    "ScramLoginModule": _by_password,
    "OAuthBearerLoginModule": _by_token,
}
