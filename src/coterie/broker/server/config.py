"""Broker settings from a TOML file and the command line, validated before start-up.

An error contains the setting's name, the value, and the valid values. Kafka's checks
between settings are applied. A Kafka setting that would have no effect here is
refused with the reason.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from coterie.auth.acl import parse_principal
from coterie.broker.catalog.configs import BROKER_CONFIGS
from coterie.broker.server.connection_limits import parse_override
from coterie.errors import SettingError
from coterie.files import dotted_names, read_toml
from coterie.settings import INT32_MAX, SECRETS, SEPARATORS, Settings

_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -(2**63)
_INT32_MIN: Final = -(2**31)
_LEAST_IDLE_MS: Final = 1_000
_WORDS: Final = {"true": True, "false": False}


class Range(NamedTuple):
    """The lowest and the highest value of a setting."""

    low: int
    high: int


_RANGES: Final[Mapping[str, Range]] = {
    "group.initial.rebalance.delay.ms": Range(_INT32_MIN, INT32_MAX),
    "group.min.session.timeout.ms": Range(_INT32_MIN, INT32_MAX),
    "group.max.session.timeout.ms": Range(1, INT32_MAX),
    "group.max.size": Range(1, INT32_MAX),
    "group.max.pending.members": Range(1, INT32_MAX),
    "group.consumer.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.min.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.max.session.timeout.ms": Range(1, INT32_MAX),
    "group.consumer.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.min.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.max.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.consumer.max.size": Range(1, INT32_MAX),
    "group.consumer.regex.refresh.interval.ms": Range(10_000, INT32_MAX),
    "group.consumer.assignment.interval.ms": Range(0, INT32_MAX),
    "group.consumer.min.assignment.interval.ms": Range(0, INT32_MAX),
    "group.consumer.max.assignment.interval.ms": Range(0, INT32_MAX),
    "group.share.session.timeout.ms": Range(1, INT32_MAX),
    "group.share.min.session.timeout.ms": Range(1, INT32_MAX),
    "group.share.max.session.timeout.ms": Range(1, INT32_MAX),
    "group.share.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.share.min.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.share.max.heartbeat.interval.ms": Range(1, INT32_MAX),
    "group.share.assignment.interval.ms": Range(0, INT32_MAX),
    "group.share.min.assignment.interval.ms": Range(0, INT32_MAX),
    "group.share.max.assignment.interval.ms": Range(0, INT32_MAX),
    "group.share.max.size": Range(1, 1_000),
    "group.share.initialize.retry.interval.ms": Range(1, INT32_MAX),
    "group.share.record.lock.duration.ms": Range(1_000, 3_600_000),
    "group.share.min.record.lock.duration.ms": Range(1_000, 30_000),
    "group.share.max.record.lock.duration.ms": Range(30_000, 3_600_000),
    "group.share.delivery.count.limit": Range(2, 10),
    "group.share.min.delivery.count.limit": Range(2, 5),
    "group.share.max.delivery.count.limit": Range(5, 25),
    "group.share.partition.max.record.locks": Range(100, 10_000),
    "group.share.min.partition.max.record.locks": Range(100, 2_000),
    "group.share.max.partition.max.record.locks": Range(2_000, 10_000),
    "group.share.max.share.sessions": Range(1, INT32_MAX),
    "offset.metadata.max.bytes": Range(_INT32_MIN, INT32_MAX),
    "offsets.retention.minutes": Range(1, INT32_MAX),
    "offsets.retention.check.interval.ms": Range(1, _LONG_MAX),
    "offsets.topic.num.partitions": Range(1, 10_000),
    "offsets.topic.partition.max.groups": Range(1, INT32_MAX),
    "offsets.commit.timeout.ms": Range(1, INT32_MAX),
    "min.insync.replicas": Range(1, INT32_MAX),
    "num.partitions": Range(1, 10_000),
    "max.partitions": Range(1, INT32_MAX),
    "catalog.max.entries": Range(1, INT32_MAX),
    "log.retention.ms": Range(_LONG_MIN, _LONG_MAX),
    "log.retention.bytes": Range(_LONG_MIN, _LONG_MAX),
    "log.retention.check.interval.ms": Range(1, _LONG_MAX),
    "log.journal.bytes": Range(65_536, 1 << 30),
    "message.max.bytes": Range(0, INT32_MAX),
    "fetch.max.bytes": Range(1_024, INT32_MAX),
    "max.incremental.fetch.session.cache.slots": Range(0, INT32_MAX),
    "max.incremental.fetch.session.cache.partitions": Range(0, INT32_MAX),
    "transaction.max.timeout.ms": Range(1, INT32_MAX),
    "transactional.id.expiration.ms": Range(1, INT32_MAX),
    "producer.id.expiration.ms": Range(1, INT32_MAX),
    "batch.records.max": Range(1, INT32_MAX),
    "batch.decompressed.bytes.max": Range(65_536, INT32_MAX),
    "socket.request.max.bytes": Range(1, INT32_MAX),
    "socket.request.max.elements": Range(1_000, INT32_MAX),
    "socket.request.without.records.max.bytes": Range(1_024, INT32_MAX),
    "queued.max.request.bytes": Range(_LONG_MIN, _LONG_MAX),
    "connection.request.timeout.ms": Range(1_000, INT32_MAX),
    "max.connections": Range(0, INT32_MAX),
    "quota.window.num": Range(1, 10_000),
    "quota.window.size.seconds": Range(1, 86_400),
    "controller.quota.window.num": Range(1, 10_000),
    "controller.quota.window.size.seconds": Range(1, 86_400),
    "max.connection.creation.rate": Range(1, INT32_MAX),
    "max.connections.per.ip": Range(0, INT32_MAX),
    "max.in.flight.requests.per.connection": Range(1, INT32_MAX),
    "connections.max.idle.ms": Range(_LONG_MIN, _LONG_MAX),
    "connection.write.buffer.max.bytes": Range(65_536, INT32_MAX),
    "sasl.server.max.receive.size": Range(1_024, INT32_MAX),
    "connections.max.reauth.ms": Range(0, _LONG_MAX),
    "connection.failed.authentication.delay.ms": Range(0, INT32_MAX),
    "connection.authentication.timeout.ms": Range(100, INT32_MAX),
    "sasl.failure.backoff.ms": Range(0, INT32_MAX),
    "sasl.failure.backoff.max.ms": Range(0, INT32_MAX),
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer": ("by-listener", "allow-all", "acl"),
    "group.consumer.migration.policy": (
        "bidirectional",
        "upgrade",
        "downgrade",
        "disabled",
    ),
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "sasl.enabled.mechanisms": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "ssl.client.auth": ("none", "requested", "required"),
    "ssl.keystore.type": ("PEM",),
    "ssl.truststore.type": ("PEM",),
}
"""The valid words of some settings; case does not matter."""

_ONE_LOOP: Final = "the coordinator runs in one event loop"
_ONE_FLUSH: Final = "all writes of an event loop iteration are flushed at once"
_NO_REPLICAS: Final = "there are no replicas"
_NO_OTHER_GROUPS: Final = "streams groups are not supported"
_NO_EFFECT: Final[Mapping[str, str]] = {
    "authorizer.class.name": "authorizer=acl is the StandardAuthorizer, and "
    "authorizer=allow-all is no authorizer",
    "group.coordinator.new.enable": "there is only one coordinator",
    "group.coordinator.threads": _ONE_LOOP,
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.append.linger.ms": _ONE_FLUSH,
    "group.coordinator.cached.buffer.max.bytes": _ONE_FLUSH,
    "group.consumer.assignor.offload.enable": _ONE_LOOP,
    "offsets.load.buffer.size": "loading has no buffer",
    "offsets.topic.segment.bytes": "segments of all topics have up to 64 MiB",
    "offsets.topic.replication.factor": _NO_REPLICAS,
    "offsets.topic.compression.codec": "__consumer_offsets is not compressed",
    "offsets.commit.required.acks": _NO_REPLICAS,
    "ssl.keystore.password": "a PEM file has none; ssl.key.password decrypts its key",
    "ssl.truststore.password": "a PEM file of certificates has no password",
}
_FOREIGN_GROUPS: Final = ("group.share.", "group.streams.", "share.coordinator.")
_DEFAULT_RANGE: Final = Range(0, _LONG_MAX)


def read_settings(
    file: Path | None = None,
    assignments: Iterable[str] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Settings:
    """Return the settings of a file, overridden by assignments like "num.partitions=3".

    `defaults` are values by name for settings that are given nowhere.

    Raises SettingError for an unreadable file, an unknown name or an invalid value.
    """
    values: dict[str, object] = dict(defaults)
    if file is not None:
        values |= dotted_names(read_toml(file))
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError(
                f"{assignment!r} is not an assignment; write NAME=VALUE, "
                "for example num.partitions=3"
            )
        if name.strip() in SECRETS:
            raise SettingError(
                f"{name.strip()} is a secret, and other users can read a command line: "
                "put it into a file, and name the file with --config"
            )
        values[name.strip()] = value.strip()
    return make_settings(values)


def make_settings(values: Mapping[str, object]) -> Settings:
    """Return settings from values by name; values may be text or typed.

    Raises SettingError as `read_settings` does.
    """
    changed: dict[str, Any] = {}
    for name, value in values.items():
        attribute = _attribute(name)
        changed[attribute] = _value(name, value)
    settings = Settings(**changed)
    _check_combinations(settings)
    return settings


def _attribute(name: str) -> str:
    attribute = BROKER_CONFIGS.get(name)
    if attribute is not None:
        return attribute
    reason = _NO_EFFECT.get(name)
    if name.startswith(_FOREIGN_GROUPS):
        reason = _NO_OTHER_GROUPS
    if reason is not None:
        raise SettingError(f"{name} has no effect in Coterie: {reason}; remove it")
    near = difflib.get_close_matches(name, BROKER_CONFIGS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SettingError(f"unknown setting {name!r}{hint}")


def _value(name: str, value: object) -> bool | int | str | tuple[str, ...]:
    default = getattr(Settings(), BROKER_CONFIGS[name])
    if isinstance(default, str | tuple):
        return _words(name, value, is_list=isinstance(default, tuple))
    if isinstance(default, bool):
        if isinstance(value, str):
            value = _WORDS.get(value.lower(), value)
        if not isinstance(value, bool):
            raise SettingError(f"{name} must be true or false, not {value!r}")
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value.replace("_", ""))
    low, high = _RANGES.get(name, _DEFAULT_RANGE)
    # Python's bool is a subclass of int, but a boolean is not a valid number.
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:  # type: ignore[operator]
        raise SettingError(
            f"{name} must be a whole number from {low} to {high}, not {value!r}"
        )
    return value  # type: ignore[return-value]


def _words(name: str, value: object, *, is_list: bool) -> str | tuple[str, ...]:
    if not is_list and isinstance(value, str):
        [word] = _check_choices(name, [value])
        return word
    separator = SEPARATORS.get(name, ",")
    if is_list and isinstance(value, str):
        value = [word.strip() for word in value.split(separator) if word.strip()]
    if is_list and isinstance(value, list) and all(isinstance(w, str) for w in value):
        return _check_choices(name, value)
    expected = "a list of words" if is_list else "a word"
    raise SettingError(f"{name} must be {expected}, not {value!r}")


def _check_choices(name: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a setting in their canonical case.

    Raises SettingError for an invalid word.
    """
    choices = _CHOICES.get(name)
    if choices is None:
        return tuple(words)
    canonical = {choice.lower(): choice for choice in choices}
    checked = []
    for word in words:
        if word.lower() not in canonical:
            raise SettingError(
                f"{name}: {word!r} is invalid; valid are {', '.join(choices)}"
            )
        checked.append(canonical[word.lower()])
    return tuple(checked)


# Checks between settings.

_ORDERED: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    *(
        (f"group.{kind}.{less}{name}", f"group.{kind}.{more}{name}")
        for kind, name in (
            ("consumer", "session.timeout.ms"),
            ("consumer", "heartbeat.interval.ms"),
            ("consumer", "assignment.interval.ms"),
            ("share", "session.timeout.ms"),
            ("share", "heartbeat.interval.ms"),
            ("share", "assignment.interval.ms"),
            ("share", "record.lock.duration.ms"),
            ("share", "delivery.count.limit"),
            ("share", "partition.max.record.locks"),
        )
        for less, more in (("min.", "max."), ("min.", ""), ("", "max."))
    ),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("offsets.commit.timeout.ms", "group.share.initialize.retry.interval.ms"),
    ("message.max.bytes", "socket.request.max.bytes"),
    ("sasl.failure.backoff.ms", "sasl.failure.backoff.max.ms"),
    ("offset.metadata.max.bytes", "message.max.bytes"),
)
"""Pairs of settings: the first must not be more than the second."""


def _check_combinations(settings: Settings) -> None:
    """Check the settings against each other. Raises SettingError."""
    for less, more in _ORDERED:
        low, high = (
            getattr(settings, BROKER_CONFIGS[less]),
            getattr(settings, BROKER_CONFIGS[more]),
        )
        if low > high:
            raise SettingError(f"{less} ({low}) must not be more than {more} ({high})")
    for kind in ("consumer", "share"):
        beat, limit = (
            f"group.{kind}.heartbeat.interval.ms",
            f"group.{kind}.session.timeout.ms",
        )
        heartbeat, session = (
            getattr(settings, BROKER_CONFIGS[beat]),
            getattr(settings, BROKER_CONFIGS[limit]),
        )
        if heartbeat >= session:
            raise SettingError(
                f"{beat} ({heartbeat}) must be less than {limit} ({session})"
            )
    _check_connections(settings)
    _check_lists(settings)


def _check_connections(settings: Settings) -> None:
    queued = settings.queued_max_request_bytes
    largest = settings.socket_request_max_bytes
    if 0 < queued < largest:
        raise SettingError(
            f"queued.max.request.bytes ({queued}) must not be less than "
            f"socket.request.max.bytes ({largest}), or -1 for no limit"
        )
    idle_ms = settings.connections_max_idle_ms
    if 0 <= idle_ms < _LEAST_IDLE_MS:
        raise SettingError(
            f"connections.max.idle.ms ({idle_ms}) must be at least {_LEAST_IDLE_MS}, "
            "or -1 for no limit: clients could not stay connected"
        )
    overrides = settings.max_connections_per_ip_overrides
    if not settings.max_connections_per_ip and not overrides:
        raise SettingError(
            "max.connections.per.ip can be 0 only with "
            "max.connections.per.ip.overrides: no client could connect"
        )
    for text in overrides:
        try:
            parse_override(text)
        except ValueError:
            raise SettingError(
                f"max.connections.per.ip.overrides: {text!r} is not HOST:LIMIT; write "
                "for example 127.0.0.1:200"
            ) from None


def _check_lists(settings: Settings) -> None:
    if not settings.sasl_enabled_mechanisms:
        raise SettingError("sasl.enabled.mechanisms must name at least one mechanism")
    if not settings.group_consumer_assignors:
        raise SettingError("group.consumer.assignors must name at least one assignor")
    for name, count in Counter(settings.group_consumer_assignors).items():
        if count > 1:
            raise SettingError(f"group.consumer.assignors names {name!r} twice")
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise SettingError(
            "group.coordinator.rebalance.protocols must contain classic, "
            "which cannot be disabled"
        )
    for text in settings.super_users:
        if parse_principal(text) is None:
            raise SettingError(
                f"super.users: {text!r} is not a principal; write for example "
                "User:alice;User:bob"
            )
