"""Settings as text become the options of a client. Raises SettingError, with the source
of what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Never

from coterie.client.settings.found import DEFAULT, Found, nearest
from coterie.client.settings.keys import (
    CLIENT_ID,
    CLIENT_SECRET,
    EXTENSIONS,
    INT32_MAX,
    KEYS,
    MECHANISMS,
    SCOPE,
    TLS_VERSIONS,
    TOKEN,
    TOKEN_URL,
    UNSECURED,
    UNSECURED_LIFE,
)
from coterie.errors import ClientError, SettingError

if TYPE_CHECKING:
    from ssl import SSLContext, TLSVersion

    from coterie.client.oauth import Grant
    from coterie.client.options import ClientOptions
    from coterie.client.sasl import Credentials, TokenProvider
    from coterie.client.secret import Secret

_FILE_URL: Final = "file:"
_LIFE_S: Final = 3_600
FIRST_CONTACT_MS: Final = 5_000
"""For how long an address is tried that never answered, unless a time-out is named."""


class Target(NamedTuple):
    """Which cluster, and how it is talked to."""

    bootstrap: str
    options: ClientOptions
    warnings: tuple[str, ...]
    known_as: str | None
    """As whom brokers know us, as far as we can know that ourselves."""


def make_target(counts: Mapping[str, Found]) -> Target:
    """The cluster and the client's options that these settings mean."""
    from coterie.client.options import ClientOptions

    said = Said(counts)
    bootstrap = said.text("bootstrap.servers")
    if not bootstrap:
        raise SettingError(
            "no cluster is named; say --bootstrap-server HOST:PORT, set "
            "COTERIE_BOOTSTRAP_SERVER, or name a profile that has bootstrap.servers"
        )
    protocol = said.word("security.protocol")
    api_timeout_ms = said.whole("default.api.timeout.ms")
    is_limit_named = counts["default.api.timeout.ms"].source != DEFAULT
    connect_ms = said.whole("socket.connection.setup.timeout.ms")
    options = ClientOptions(
        client_id=said.text("client.id") or "",
        ssl=_tls(said) if protocol.endswith("SSL") else None,
        sasl=_sasl(said) if protocol.startswith("SASL") else None,
        connect_timeout_ms=min(connect_ms, api_timeout_ms),
        request_timeout_ms=min(said.whole("request.timeout.ms"), api_timeout_ms),
        api_timeout_ms=api_timeout_ms,
        first_contact_ms=api_timeout_ms if is_limit_named else FIRST_CONTACT_MS,
        retry_backoff_ms=said.whole("retry.backoff.ms"),
        retry_backoff_max_ms=said.whole("retry.backoff.max.ms"),
    )
    doubts = (*_doubts(said, protocol), *_readable(options, bootstrap))
    return Target(bootstrap, options, doubts, _known_as(said, options))


def _known_as(said: Said, options: ClientOptions) -> str | None:
    if (who := options.sasl) is not None:
        return f"{getattr(who, 'username', 'a token')} by {who.mechanism}"
    shown = (
        "ssl.keystore.location",
        "ssl.certificate.location",
        "ssl.keystore.certificate.chain",
    )
    has_shown = options.ssl is not None and any(map(said.given, shown))
    return "its certificate" if has_shown else None


def _doubts(said: Said, protocol: str) -> list[str]:
    """What can be, but is hardly meant."""
    doubts = []
    if "SASL" not in protocol and (mechanism := said.given("sasl.mechanism")):
        doubts.append(
            f"sasl.mechanism ({mechanism.source}) does nothing while security.protocol "
            f"is {protocol}; SASL_SSL or SASL_PLAINTEXT is needed"
        )
    if "SSL" not in protocol.removeprefix("SASL_") and (
        store := said.given("ssl.truststore.location")
    ):
        doubts.append(
            f"{store.written} ({store.source}) does nothing while security.protocol "
            f"is {protocol}"
        )
    return doubts


def _readable(options: ClientOptions, bootstrap: str) -> list[str]:
    """A password that leaves this machine for all to read."""
    is_plain = options.sasl is not None and options.sasl.mechanism == "PLAIN"
    is_near = all(map(_is_near, bootstrap.split(",")))
    if not is_plain or options.ssl is not None or is_near:
        return []
    return [
        "PLAIN without TLS sends the password so that anybody on the way can read it; "
        "use SASL_SSL, or SCRAM"
    ]


def _is_near(address: str) -> bool:
    host = address.strip().rpartition("://")[2].rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")


# TLS.


def _tls(said: Said) -> SSLContext:
    from coterie.client.tls import TlsOptions, make_context

    certificate = said.path("ssl.certificate.location") or said.path(
        "ssl.keystore.location"
    )
    key = said.path("ssl.key.location")
    is_checked = said.switch("enable.ssl.certificate.verification")
    name_rule = said.word("ssl.endpoint.identification.algorithm")
    return make_context(
        TlsOptions(
            trust=said.path("ssl.truststore.location")
            or said.text("ssl.truststore.certificates"),
            trust_password=said.secret("ssl.truststore.password"),
            certificate=certificate or said.text("ssl.keystore.certificate.chain"),
            key=key or said.secret("ssl.keystore.key"),
            certificate_password=said.secret("ssl.keystore.password"),
            key_password=said.secret("ssl.key.password"),
            checks_certificate=is_checked,
            checks_name=name_rule == "https",
            version_min=_version_min(said),
            ciphers=_ciphers(said),
        )
    )


def _version_min(said: Said) -> TLSVersion:
    import ssl

    listed = (said.text("ssl.enabled.protocols") or "").split(",")
    known = [each for each in TLS_VERSIONS if each in {word.strip() for word in listed}]
    if not known:
        said.refuse("ssl.enabled.protocols", f"name {' or '.join(TLS_VERSIONS)}")
    return ssl.TLSVersion[known[0].replace(".", "_")]


def _ciphers(said: Said) -> str | None:
    """OpenSSL's list. Java's names mean nothing to OpenSSL, whose own choice is as
    strict today; they are left out."""
    listed = said.text("ssl.cipher.suites")
    if not listed or all(name.strip().startswith("TLS_") for name in listed.split(",")):
        return None
    return listed.replace(",", ":")


# SASL.


def _sasl(said: Said) -> Credentials:
    from coterie.client.sasl import OAuthBearer, Plain, Scram

    mechanism = said.word("sasl.mechanism")
    if not mechanism:
        raise SettingError(
            f"sasl.mechanism is missing; {', '.join(MECHANISMS)} are built in "
            "(Kafka's own default, GSSAPI, is not)"
        )
    if mechanism == "OAUTHBEARER":
        return OAuthBearer(_provider(said), _pairs(said, EXTENSIONS))
    username, password = said.text("sasl.username"), said.secret("sasl.password")
    if not username or password is None:
        missing = "sasl.password" if username else "sasl.username"
        raise SettingError(
            f"{missing} is missing, which {mechanism} needs; "
            "sasl.jaas.config or a profile may have it"
        )
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram(mechanism, username, password)


def _provider(said: Said) -> TokenProvider:
    from coterie.client import oauth

    if token := said.secret(TOKEN):
        return oauth.FixedToken(token)
    if url := said.text(TOKEN_URL):
        if url.startswith(_FILE_URL):
            return oauth.TokenFile(_path_of(url))
        return oauth.ClientCredentials(_grant(said, url))
    if principal := said.text(UNSECURED):
        scopes = tuple((said.text(SCOPE) or "").split())
        life_s = said.whole(UNSECURED_LIFE) if said.given(UNSECURED_LIFE) else _LIFE_S
        return oauth.UnsecuredToken(principal, scopes, life_s)
    raise SettingError(
        f"OAUTHBEARER needs a token; {TOKEN_URL} says where to get one "
        f"(https:, or file:), {TOKEN} is one"
    )


def _path_of(url: str) -> Path:
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(url).path))


def _grant(said: Said, url: str) -> Grant:
    from coterie.client.oauth import Grant
    from coterie.client.tls import TlsOptions, make_context

    client_id, secret = said.text(CLIENT_ID), said.secret(CLIENT_SECRET)
    if not client_id or secret is None:
        missing = CLIENT_SECRET if client_id else CLIENT_ID
        raise SettingError(f"{missing} is missing, which {TOKEN_URL} needs")
    trust = said.path("https.ca.location")
    try:
        return Grant(
            url=url,
            client_id=client_id,
            client_secret=secret,
            scope=said.text(SCOPE) or "",
            ssl=make_context(TlsOptions(trust=trust)) if trust else None,
            timeout_s=said.whole("socket.connection.setup.timeout.ms") / 1000,
        )
    except ClientError as error:
        raise SettingError(f"{TOKEN_URL}: {error}") from error


def _pairs(said: Said, name: str) -> dict[str, str]:
    text = said.text(name)
    if not text:
        return {}
    pairs = [each.partition("=") for each in text.split(",")]
    if not all(key and equals for key, equals, _ in pairs):
        said.refuse(name, "write NAME=VALUE,NAME=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


class Said:
    """The settings that count, by their kinds. Each method raises SettingError for a
    value that is none of its kind."""

    def __init__(self, counts: Mapping[str, Found]) -> None:
        self._counts = counts

    def given(self, name: str) -> Found | None:
        """What was found, if anything but a default was."""
        found = self._counts.get(name)
        return None if found is None or found.source.kind == "default" else found

    def text(self, name: str) -> str | None:
        """The text as it stands."""
        found = self._counts.get(name)
        if found is None:
            return None
        assert isinstance(found.value, str), name
        return found.value

    def secret(self, name: str) -> Secret | None:
        """The secret; an empty one is none."""
        found = self._counts.get(name)
        if found is None:
            return None
        assert not isinstance(found.value, str), name
        return found.value if found.value.reveal() else None

    def path(self, name: str) -> Path | None:
        """The path, with ~ being home."""
        text = self.text(name)
        return Path(text).expanduser() if text else None

    def word(self, name: str) -> str:
        """One of its words, as the table writes it; "" when there is none."""
        text = (self.text(name) or "").strip()
        words = KEYS[name].words
        known = {each.lower(): each for each in words}
        if text.lower() not in known and (text or self.given(name)):
            near = nearest(text.upper(), words)
            hint = f"did you mean {near}? " if near else ""
            listed = ", ".join(filter(None, words))
            self.refuse(name, f"{hint}it is one of {listed}, not {text!r}")
        return known.get(text.lower(), "")

    def whole(self, name: str) -> int:
        """A whole number from 1 on that fits 32 bits."""
        text = (self.text(name) or "").strip()
        is_whole = text.isascii() and text.isdigit()
        if not is_whole or not 1 <= int(text) <= INT32_MAX:
            self.refuse(name, f"a whole number from 1 to {INT32_MAX}, not {text!r}")
        return int(text)

    def switch(self, name: str) -> bool:
        """True or false."""
        text = (self.text(name) or "").strip().lower()
        if text not in {"true", "false"}:
            self.refuse(name, f"true or false, not {text!r}")
        return text == "true"

    def refuse(self, name: str, why: str) -> Never:
        """Raise SettingError for a setting, with where it stands."""
        found = self._counts[name]
        raise SettingError(f"{found.written} ({found.source}) cannot be: {why}")
