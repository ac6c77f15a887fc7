"""What settings may not be, beside one another or at all.

Kafka's cross checks at start (E24-01), and Kafka's settings that would do nothing here:
they are refused with the reason, since whoever sets one expects something of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from coterie.auth.authorizer import parse_principal
from coterie.errors import SettingError
from coterie.settings import Settings

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
"""The words that some settings are made of; case does not matter."""

_ONE_LOOP: Final = "the coordinator runs in the server's one event loop"
_ONE_FLUSH: Final = "what one turn of the loop writes becomes durable in one flush"
_NO_REPLICAS: Final = "there are no replicas"
_NO_OTHER_GROUPS: Final = "groups are classic groups or consumer groups"
_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "authorizer.class.name": "authorizer=acl is the StandardAuthorizer, "
    "authorizer=allow-all is none",
    "group.coordinator.new.enable": "there is one coordinator only",
    "group.coordinator.threads": _ONE_LOOP,
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.append.linger.ms": _ONE_FLUSH,
    "group.coordinator.cached.buffer.max.bytes": _ONE_FLUSH,
    "group.consumer.assignor.offload.enable": _ONE_LOOP,
    "offsets.load.buffer.size": "loading has no buffer",
    "offsets.topic.segment.bytes": "the log has no segments",
    "offsets.topic.replication.factor": _NO_REPLICAS,
    "offsets.topic.compression.codec": "__consumer_offsets is not compressed",
    "offsets.commit.required.acks": _NO_REPLICAS,
    "ssl.keystore.password": "a PEM file has none; ssl.key.password is its key's",
    "ssl.truststore.password": "a PEM file of certificates has none",
}
_FOREIGN_GROUPS: Final = ("group.share.", "group.streams.", "share.coordinator.")


def without_meaning(name: str) -> str | None:
    """Why Kafka's setting of this name would do nothing here; None if it is not one of
    those."""
    if name.startswith(_FOREIGN_GROUPS):
        return _NO_OTHER_GROUPS
    return _WITHOUT_MEANING.get(name)


def known_words(name: str, words: Iterable[str]) -> tuple[str, ...]:
    """The words of a setting, as we write them. Raises SettingError for a word it does
    not have."""
    choices = _CHOICES.get(name)
    if choices is None:
        return tuple(words)
    written = {choice.lower(): choice for choice in choices}
    found = []
    for word in words:
        if word.lower() not in written:
            raise SettingError(
                f"{name} is made of {', '.join(choices)}; {word!r} is none of them"
            )
        found.append(written[word.lower()])
    return tuple(found)


def check_together(settings: Settings) -> None:
    """What each setting may be alone and not beside another. Raises SettingError."""
    _check_sessions_and_intervals(settings)
    _check_lists(settings)
    _check_sizes(settings)
    _check_super_users(settings)


def _check_super_users(settings: Settings) -> None:
    for text in settings.super_users:
        if parse_principal(text) is None:
            raise SettingError(
                f"super.users names {text!r}, which is no principal; write for "
                "example User:alice;User:bob"
            )


def _check_sessions_and_intervals(settings: Settings) -> None:
    _in_order(settings, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    for what in (
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "assignment.interval.ms",
    ):
        least, most = f"group.consumer.min.{what}", f"group.consumer.max.{what}"
        _in_order(settings, least, most)
        _in_order(settings, least, f"group.consumer.{what}")
        _in_order(settings, f"group.consumer.{what}", most)
    heartbeat = settings.group_consumer_heartbeat_interval_ms
    session = settings.group_consumer_session_timeout_ms
    if heartbeat >= session:
        raise SettingError(
            f"group.consumer.heartbeat.interval.ms ({heartbeat}) must be less than "
            f"group.consumer.session.timeout.ms ({session})"
        )


def _in_order(settings: Settings, less: str, more: str) -> None:
    low, high = (getattr(settings, name.replace(".", "_")) for name in (less, more))
    if low > high:
        raise SettingError(f"{less} ({low}) must not be more than {more} ({high})")


def _check_lists(settings: Settings) -> None:
    assignors = settings.group_consumer_assignors
    if not settings.sasl_enabled_mechanisms:
        raise SettingError("sasl.enabled.mechanisms must name at least one mechanism")
    if not assignors:
        raise SettingError("group.consumer.assignors must name at least one assignor")
    for name, count in Counter(assignors).items():
        if count > 1:
            raise SettingError(f"group.consumer.assignors names {name!r} twice")
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise SettingError(
            "group.coordinator.rebalance.protocols must contain classic, "
            "which cannot be switched off"
        )


def _check_sizes(settings: Settings) -> None:
    if settings.message_max_bytes > settings.socket_request_max_bytes:
        raise SettingError(
            f"message.max.bytes ({settings.message_max_bytes}) must not be more than "
            f"socket.request.max.bytes ({settings.socket_request_max_bytes}): "
            "no request could carry such a batch"
        )
    if settings.offset_metadata_max_bytes > settings.message_max_bytes:
        raise SettingError(
            f"offset.metadata.max.bytes ({settings.offset_metadata_max_bytes}) must "
            f"not be more than message.max.bytes ({settings.message_max_bytes})"
        )
