"""Configurations of topics, brokers and groups as clients see them."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.wire.config_kinds import ConfigSource, ConfigType, ResourceKind


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """What has configurations: the topic or group of a name, or the broker of an id.
    The broker "" stands for what all brokers have in common."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place where a value could come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration and its value. `value` is None when it is a secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType = ConfigType.UNKNOWN
    """UNKNOWN before Kafka 2.6."""
    is_read_only: bool = False
    is_sensitive: bool = False
    documentation: str | None = None
    """When it was asked for, and the broker is of Kafka 2.6 or later."""
    synonyms: tuple[ConfigSynonym, ...] = ()
    """When they were asked for: the source that wins comes first."""

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT
