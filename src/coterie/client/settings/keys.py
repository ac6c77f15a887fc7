"""Connection settings: names, kinds and defaults.

The names are those of Kafka's Java clients; librdkafka's names are aliases.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

INT32_MAX: Final = 2**31 - 1


class Kind(Enum):
    """The type of a setting's value."""

    TEXT = auto()
    WORD = auto()
    """One of `Key.words`, case-insensitive."""
    WHOLE = auto()
    SWITCH = auto()
    PATH = auto()
    SECRET = auto()


class Key(NamedTuple):
    """The declaration of one setting. Times in ms."""

    name: str
    kind: Kind
    summary: str
    default: str | None = None
    words: tuple[str, ...] = ()


PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

_OAUTH: Final = "sasl.oauthbearer."
TOKEN: Final = _OAUTH + "access.token"
TOKEN_URL: Final = _OAUTH + "token.endpoint.url"
CLIENT_ID: Final = _OAUTH + "client.credentials.client.id"
CLIENT_SECRET: Final = _OAUTH + "client.credentials.client.secret"
SCOPE: Final = _OAUTH + "scope"
EXTENSIONS: Final = _OAUTH + "extensions"
UNSECURED: Final = _OAUTH + "unsecured.principal"
UNSECURED_LIFE: Final = _OAUTH + "unsecured.lifetime.seconds"

_TABLE: Final = (
    Key("bootstrap.servers", Kind.TEXT, "brokers to start from, HOST:PORT,..."),
    Key("client.id", Kind.TEXT, "the name brokers log", "coterie"),
    Key(
        "security.protocol",
        Kind.WORD,
        "TLS, SASL, both or neither",
        "PLAINTEXT",
        PROTOCOLS,
    ),
    Key(
        "default.api.timeout.ms",
        Kind.WHOLE,
        "limit of a call, retries included",
        "60000",
    ),
    Key("request.timeout.ms", Kind.WHOLE, "limit of one request", "15000"),
    Key(
        "socket.connection.setup.timeout.ms", Kind.WHOLE, "limit of connecting", "10000"
    ),
    Key("retry.backoff.ms", Kind.WHOLE, "backoff before the first retry", "100"),
    Key("retry.backoff.max.ms", Kind.WHOLE, "longest backoff", "1000"),
    Key("sasl.mechanism", Kind.WORD, "mechanism of authentication", words=MECHANISMS),
    Key("sasl.username", Kind.TEXT, "for PLAIN and SCRAM"),
    Key("sasl.password", Kind.SECRET, "for PLAIN and SCRAM"),
    Key(TOKEN, Kind.SECRET, "a bearer token (Coterie's own)"),
    Key(TOKEN_URL, Kind.TEXT, "https: endpoint of tokens; file: a token in a file"),
    Key(CLIENT_ID, Kind.TEXT, "client id for the token endpoint"),
    Key(CLIENT_SECRET, Kind.SECRET, "client secret for it"),
    Key(SCOPE, Kind.TEXT, "scope of the token"),
    Key(EXTENSIONS, Kind.TEXT, "SASL extensions, NAME=VALUE,..."),
    Key(
        UNSECURED,
        Kind.TEXT,
        "principal of an unsigned token, for tests (Coterie's own)",
    ),
    Key(UNSECURED_LIFE, Kind.WHOLE, "lifetime of that token (Coterie's own)"),
    Key("ssl.truststore.location", Kind.PATH, "trusted certificates: PEM or PKCS12"),
    Key("ssl.truststore.password", Kind.SECRET, "password of a PKCS12 file"),
    Key("ssl.truststore.certificates", Kind.TEXT, "trusted certificates, as PEM text"),
    Key("ssl.keystore.location", Kind.PATH, "key and chain: PEM or PKCS12"),
    Key("ssl.keystore.password", Kind.SECRET, "password of a PKCS12 file"),
    Key("ssl.keystore.certificate.chain", Kind.TEXT, "the chain, as PEM text"),
    Key("ssl.keystore.key", Kind.SECRET, "the private key, as PEM text"),
    Key("ssl.certificate.location", Kind.PATH, "the chain: PEM (librdkafka)"),
    Key("ssl.key.location", Kind.PATH, "the private key: PEM (librdkafka)"),
    Key("ssl.key.password", Kind.SECRET, "password of the private key"),
    Key(
        "ssl.endpoint.identification.algorithm",
        Kind.WORD,
        "https checks the broker's host name; none or empty does not",
        "https",
        ("https", "none", ""),
    ),
    Key(
        "enable.ssl.certificate.verification",
        Kind.SWITCH,
        "false trusts every broker (librdkafka)",
        "true",
    ),
    Key("ssl.enabled.protocols", Kind.TEXT, "versions of TLS", ",".join(TLS_VERSIONS)),
    Key("ssl.cipher.suites", Kind.TEXT, "OpenSSL's names, for TLS 1.2"),
    Key("https.ca.location", Kind.PATH, "trusted certificates of the token endpoint"),
)

KEYS: Final[Mapping[str, Key]] = {key.name: key for key in _TABLE}

ALIASES: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    _OAUTH + "client.id": CLIENT_ID,
    _OAUTH + "client.secret": CLIENT_SECRET,
    "enable.ssl.cert.verification": "enable.ssl.certificate.verification",
}

JAAS: Final = "sasl.jaas.config"
OAUTH_CONFIG: Final = _OAUTH + "config"
"""librdkafka's description of an unsigned token."""
EXPANDED: Final = frozenset({JAAS, OAUTH_CONFIG})
"""Settings that contain several others, which they are replaced by."""


def canonical(name: str) -> str:
    """Return the canonical name of a setting."""
    return ALIASES.get(name, name)


def is_secret(name: str) -> bool:
    """Return whether a value must never be printed nor given on a command line."""
    key = KEYS.get(canonical(name))
    return name == JAAS or (key is not None and key.kind is Kind.SECRET)


def is_private_key(text: str) -> bool:
    """Return whether a PEM text contains a private key; some files have both."""
    return "PRIVATE KEY-----" in text


def is_meaningless(name: str) -> bool:
    """Return whether a setting of other clients has no effect here: files are often
    shared with consumers."""
    return name in _OTHERS or name.startswith(_OTHERS_BEGIN)


_OTHERS: Final = frozenset(
    (
        *("acks", "batch.num.messages", "batch.size", "broker.address.ttl"),
        *("broker.version.fallback", "buffer.memory", "builtin.features", "check.crcs"),
        *("client.dns.lookup", "client.rack", "connections.max.idle.ms", "debug"),
        *("delivery.timeout.ms", "exclude.internal.topics", "heartbeat.interval.ms"),
        *("internal.termination.signal", "isolation.level", "linger.ms", "retries"),
        *("offset.store.method", "plugin.library.paths", "receive.buffer.bytes"),
        *("reconnect.backoff.jitter.ms", "reconnect.backoff.max.ms"),
        *("reconnect.backoff.ms", "request.required.acks", "security.providers"),
        *("send.buffer.bytes", "session.timeout.ms", "ssl.crl.location"),
        *("socket.connection.setup.timeout.max.ms", "ssl.curves.list"),
        *("ssl.engine.factory.class", "ssl.engine.id", "ssl.engine.location"),
        *("ssl.keymanager.algorithm", "ssl.keystore.type", "ssl.protocol"),
        *("ssl.provider", "ssl.providers", "ssl.secure.random.implementation"),
        *("ssl.sigalgs.list", "ssl.trustmanager.algorithm", "ssl.truststore.type"),
        *("statistics.interval.ms", "upgrade.from"),
    )
)
_OTHERS_BEGIN: Final = (
    *("allow.", "api.version.", "auto.", "bootstrap.controllers", "broker.address."),
    *("client.software", "compression.", "consume.", "enable.auto"),
    *("enable.gapless", "enable.idempotence", "enable.metrics.push", "enable.random"),
    *("enable.partition", "enable.sasl.oauthbearer", "enable.sparse", "fetch."),
    *("group.", "interceptor", "key.", "log.", "log_level", "max.", "message."),
    *("metadata.", "metric", "partition", "queue", "sasl.client.", "sasl.kerberos."),
    *("sasl.login.", "sasl.oauthbearer.", "share.", "socket.", "sticky."),
    *("topic.", "transaction", "value."),
)
