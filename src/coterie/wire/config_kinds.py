"""Configurations as the protocol numbers them: whose they are, where a value comes
from, and of what type it is.

A number of a newer broker is read as UNKNOWN.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class _Kind(IntEnum):
    """A number whose zero is UNKNOWN."""

    @classmethod
    def read(cls, number: int) -> Self:
        """The kind of a number in an answer."""
        return next((each for each in cls if each == number), cls(0))


class ResourceKind(_Kind):
    """What configurations belong to (ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(_Kind):
    """The sources of DescribeConfigs and CreateTopics answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(_Kind):
    """The types of values, as DescribeConfigs numbers them."""

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
