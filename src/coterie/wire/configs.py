"""The numbers of DescribeConfigs and AlterConfigs: resource types, sources, value
types.

A number that a newer broker sends and this module lacks is read as UNKNOWN.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class _ProtocolNumber(IntEnum):
    """An enumeration of the protocol; 0 is UNKNOWN."""

    @classmethod
    def read(cls, number: int) -> Self:
        """Return the member for a number in a response; UNKNOWN for others."""
        return next((each for each in cls if each == number), cls(0))


class ConfigResourceType(_ProtocolNumber):
    """The types of resources that have configurations (Kafka's ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(_ProtocolNumber):
    """The sources of a value (Kafka's ConfigEntry.ConfigSource)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(_ProtocolNumber):
    """The types of values (Kafka's ConfigEntry.ConfigType)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9
