"""Where a configuration's value comes from, as the protocol numbers it."""

from __future__ import annotations

from enum import IntEnum


class ConfigSource(IntEnum):
    """The sources of DescribeConfigs and CreateTopics answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ResourceKind(IntEnum):
    """What configurations belong to (ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
