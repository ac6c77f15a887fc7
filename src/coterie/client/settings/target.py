"""The conversion of settings into the options of a client.

It raises SettingError with the source of an invalid value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Never

from coterie import client
from coterie.client.settings import keys
from coterie.client.settings.collected import DEFAULT, SettingValue, nearest
from coterie.errors import ClientError, SettingError
from coterie.files import expand_user

if TYPE_CHECKING:
    from ssl import SSLContext, TLSVersion

_FILE_URL: Final = "file:"
_LIFE_S: Final = 3_600
FIRST_CONTACT_MS: Final = 5_000
"""The limit for the first contact, unless a time-out is set."""


class Target(NamedTuple):
    """A cluster and the options of its client."""

    bootstrap: str
    options: client.ClientOptions
    warnings: tuple[str, ...]
    principal: str | None
    """A description of the principal for people, from the client's settings."""


def make_target(
    values: Mapping[str, SettingValue], option: str = "--bootstrap-server"
) -> Target:
    """Return the cluster and the client's options. `option` is the one that names the
    cluster. Raises SettingError."""
    settings = SettingReader(values)
    bootstrap = settings.text("bootstrap.servers")
    if not bootstrap:
        raise SettingError(
            f"no cluster is named; use {option} HOST:PORT, "
            "COTERIE_BOOTSTRAP_SERVER, or a profile with bootstrap.servers"
        )
    protocol = settings.word("security.protocol")
    api_timeout_ms = settings.whole("default.api.timeout.ms")
    is_limit_named = values["default.api.timeout.ms"].source != DEFAULT
    connect_ms = settings.whole("socket.connection.setup.timeout.ms")
    options = client.ClientOptions(
        client_id=settings.text("client.id") or "",
        ssl=_tls(settings) if protocol.endswith("SSL") else None,
        sasl=_sasl(settings) if protocol.startswith("SASL") else None,
        connect_timeout_ms=min(connect_ms, api_timeout_ms),
        request_timeout_ms=min(settings.whole("request.timeout.ms"), api_timeout_ms),
        api_timeout_ms=api_timeout_ms,
        first_contact_ms=api_timeout_ms if is_limit_named else FIRST_CONTACT_MS,
        retry_backoff_ms=settings.whole("retry.backoff.ms"),
        retry_backoff_max_ms=settings.whole("retry.backoff.max.ms"),
    )
    return Target(
        bootstrap,
        options,
        tuple(_warnings(settings, options, bootstrap, protocol)),
        _principal(settings, options),
    )


def _principal(settings: SettingReader, options: client.ClientOptions) -> str | None:
    if (credentials := options.sasl) is not None:
        user = getattr(credentials, "username", "a token")
        return f"{user} by {credentials.mechanism}"
    certificates = (
        "ssl.keystore.location",
        "ssl.certificate.location",
        "ssl.keystore.certificate.chain",
    )
    has_certificate = options.ssl is not None and any(map(settings.given, certificates))
    return "its certificate" if has_certificate else None


def _warnings(
    settings: SettingReader,
    options: client.ClientOptions,
    bootstrap: str,
    protocol: str,
) -> Iterator[str]:
    """Yield warnings about settings that are valid but probably wrong."""
    if "SASL" not in protocol and (mechanism := settings.given("sasl.mechanism")):
        yield (
            f"sasl.mechanism ({mechanism.source}) has no effect while "
            f"security.protocol is {protocol}; SASL_SSL or SASL_PLAINTEXT is needed"
        )
    if "SSL" not in protocol.removeprefix("SASL_") and (
        store := settings.given("ssl.truststore.location")
    ):
        yield (
            f"{store.written} ({store.source}) has no effect while security.protocol "
            f"is {protocol}"
        )
    is_plain = options.sasl is not None and options.sasl.mechanism == "PLAIN"
    is_loopback = all(map(_is_loopback, bootstrap.split(",")))
    if is_plain and options.ssl is None and not is_loopback:
        yield (
            "PLAIN without TLS sends the password in plain text; use SASL_SSL, or SCRAM"
        )


def _is_loopback(address: str) -> bool:
    host = address.strip().rpartition("://")[2].rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")


def _tls(settings: SettingReader) -> SSLContext:
    certificate = settings.path("ssl.certificate.location") or settings.path(
        "ssl.keystore.location"
    )
    key = settings.path("ssl.key.location")
    is_checked = settings.switch("enable.ssl.certificate.verification")
    name_rule = settings.word("ssl.endpoint.identification.algorithm")
    return client.make_context(
        client.TlsOptions(
            trust=settings.path("ssl.truststore.location")
            or settings.text("ssl.truststore.certificates"),
            trust_password=settings.secret("ssl.truststore.password"),
            certificate=certificate or settings.text("ssl.keystore.certificate.chain"),
            key=key or settings.secret("ssl.keystore.key"),
            certificate_password=settings.secret("ssl.keystore.password"),
            key_password=settings.secret("ssl.key.password"),
            checks_certificate=is_checked,
            checks_name=name_rule == "https",
            version_min=_version_min(settings),
            ciphers=_ciphers(settings),
        )
    )


def _version_min(settings: SettingReader) -> TLSVersion:
    import ssl

    listed = (settings.text("ssl.enabled.protocols") or "").split(",")
    known = [
        each for each in keys.TLS_VERSIONS if each in {word.strip() for word in listed}
    ]
    if not known:
        settings.refuse(
            "ssl.enabled.protocols", f"use {' or '.join(keys.TLS_VERSIONS)}"
        )
    return ssl.TLSVersion[known[0].replace(".", "_")]


def _ciphers(settings: SettingReader) -> str | None:
    """Return OpenSSL's list of ciphers. A list of Java names is ignored: OpenSSL does
    not support them, and its defaults are as strict.
    """
    listed = settings.text("ssl.cipher.suites")
    if not listed or all(name.strip().startswith("TLS_") for name in listed.split(",")):
        return None
    return listed.replace(",", ":")


def _sasl(settings: SettingReader) -> client.Credentials:
    mechanism = settings.word("sasl.mechanism")
    if not mechanism:
        raise SettingError(
            f"sasl.mechanism is missing; use {', '.join(keys.MECHANISMS)} "
            "(Kafka's default, GSSAPI, is not supported)"
        )
    if mechanism == "OAUTHBEARER":
        return client.OAuthBearer(
            _provider(settings), _pairs(settings, keys.EXTENSIONS)
        )
    username, password = (
        settings.text("sasl.username"),
        settings.secret("sasl.password"),
    )
    if not username or password is None:
        missing = "sasl.password" if username else "sasl.username"
        raise SettingError(
            f"{mechanism} needs {missing}; set it in sasl.jaas.config or a profile"
        )
    if mechanism == "PLAIN":
        return client.Plain(username, password)
    return client.Scram(mechanism, username, password)


def _provider(settings: SettingReader) -> client.TokenProvider:
    if token := settings.secret(keys.TOKEN):
        return client.FixedToken(token)
    if url := settings.text(keys.TOKEN_URL):
        if url.startswith(_FILE_URL):
            return client.TokenFile(_path_of(url))
        return client.ClientCredentials(_grant(settings, url))
    if principal := settings.text(keys.UNSECURED):
        scopes = tuple((settings.text(keys.SCOPE) or "").split())
        life_s = (
            settings.whole(keys.UNSECURED_LIFE)
            if settings.given(keys.UNSECURED_LIFE)
            else _LIFE_S
        )
        return client.UnsecuredToken(principal, scopes, life_s)
    raise SettingError(
        f"OAUTHBEARER needs a token; set {keys.TOKEN_URL} (https: or file:), or "
        f"{keys.TOKEN}"
    )


def _path_of(url: str) -> Path:
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(url).path))


def _grant(settings: SettingReader, url: str) -> client.Grant:
    client_id, secret = (
        settings.text(keys.CLIENT_ID),
        settings.secret(keys.CLIENT_SECRET),
    )
    if not client_id or secret is None:
        missing = keys.CLIENT_SECRET if client_id else keys.CLIENT_ID
        raise SettingError(f"{keys.TOKEN_URL} needs {missing}")
    trust = settings.path("https.ca.location")
    try:
        return client.Grant(
            url=url,
            client_id=client_id,
            client_secret=secret,
            scope=settings.text(keys.SCOPE) or "",
            ssl=client.make_context(client.TlsOptions(trust=trust)) if trust else None,
            timeout_s=settings.whole("socket.connection.setup.timeout.ms") / 1000,
        )
    except ClientError as error:
        raise SettingError(f"{keys.TOKEN_URL}: {error}") from error


def _pairs(settings: SettingReader, name: str) -> dict[str, str]:
    text = settings.text(name)
    if not text:
        return {}
    pairs = [each.partition("=") for each in text.split(",")]
    if not all(key and equals for key, equals, _ in pairs):
        settings.refuse(name, "write NAME=VALUE,NAME=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


class SettingReader:
    """The effective settings, read by type. Each method raises SettingError for an
    invalid value."""

    def __init__(self, values: Mapping[str, SettingValue]) -> None:
        self._values = values

    def given(self, name: str) -> SettingValue | None:
        """Return a value that was set; None for a default."""
        setting = self._values.get(name)
        return None if setting is None or setting.source.kind == "default" else setting

    def text(self, name: str) -> str | None:
        setting = self._values.get(name)
        if setting is None:
            return None
        assert isinstance(setting.value, str), name
        return setting.value

    def secret(self, name: str) -> client.Secret | None:
        """Return a secret; None when it is empty."""
        setting = self._values.get(name)
        if setting is None:
            return None
        assert not isinstance(setting.value, str), name
        return setting.value if setting.value.reveal() else None

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return expand_user(text) if text else None

    def word(self, name: str) -> str:
        """Return one of the setting's words in the table's spelling; "" without a
        value."""
        text = (self.text(name) or "").strip()
        words = keys.KEYS[name].words
        known = {each.lower(): each for each in words}
        if text.lower() not in known and (text or self.given(name)):
            near = nearest(text.upper(), words)
            hint = f"did you mean {near}? " if near else ""
            listed = ", ".join(filter(None, words))
            self.refuse(name, f"{hint}use one of {listed}, not {text!r}")
        return known.get(text.lower(), "")

    def whole(self, name: str) -> int:
        text = (self.text(name) or "").strip()
        is_whole = text.isascii() and text.isdigit()
        if not is_whole or not 1 <= int(text) <= keys.INT32_MAX:
            self.refuse(
                name, f"use a whole number from 1 to {keys.INT32_MAX}, not {text!r}"
            )
        return int(text)

    def switch(self, name: str) -> bool:
        text = (self.text(name) or "").strip().lower()
        if text not in {"true", "false"}:
            self.refuse(name, f"use true or false, not {text!r}")
        return text == "true"

    def refuse(self, name: str, why: str) -> Never:
        """Raise SettingError with the source of a setting."""
        setting = self._values[name]
        raise SettingError(f"{setting.written} ({setting.source}) is invalid: {why}")
