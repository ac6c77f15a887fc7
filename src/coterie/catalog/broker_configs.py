"""The broker's settings as configurations that a client reads and, a few, changes.

Which can be changed while running is Kafka's list, as far as we have those settings.
The rest is read only and set where the server is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from coterie.catalog.topic_configs import INT_MAX, LONG_MAX
from coterie.errors import ApiError
from coterie.settings import SECRETS, SEPARATORS, Settings
from coterie.wire.config_kinds import ConfigType
from coterie.wire.error_codes import ErrorCode

DYNAMIC: Final[Mapping[str, tuple[int, int]]] = {
    "log.retention.ms": (-1, LONG_MAX),
    "log.retention.bytes": (-1, LONG_MAX),
    "message.max.bytes": (0, INT_MAX),
    "transaction.max.timeout.ms": (1, INT_MAX),
    "producer.id.expiration.ms": (1, INT_MAX),
}
"""The settings that can change while running, with the least and greatest value."""

BROKER_CONFIGS: Final[Mapping[str, str]] = {
    field.name.replace("_", "."): field.name for field in fields(Settings)
}
"""Every setting by Kafka's name, with the attribute that holds it."""

_TYPES: Final[Mapping[type, ConfigType]] = {
    bool: ConfigType.BOOLEAN,
    str: ConfigType.STRING,
    float: ConfigType.DOUBLE,
}


def broker_config_value(settings: Settings, name: str) -> str | None:
    """A setting's value as text; None for a secret, which is told to nobody."""
    if name in SECRETS:
        return None
    value = getattr(settings, BROKER_CONFIGS[name])
    if isinstance(value, tuple):
        return SEPARATORS.get(name, ",").join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def broker_config_type(settings: Settings, name: str) -> ConfigType:
    """A setting's type."""
    value = getattr(settings, BROKER_CONFIGS[name])
    if name in SECRETS:
        return ConfigType.PASSWORD
    if type(value) is int:
        is_long = name.endswith((".ms", "retention.bytes"))
        return ConfigType.LONG if is_long else ConfigType.INT
    return _TYPES.get(type(value), ConfigType.LIST)


def check_broker_config(name: str, value: str | None) -> None:
    """Raise ApiError INVALID_REQUEST unless the setting can change while running, or
    INVALID_CONFIG for a value it cannot have."""
    if name not in DYNAMIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {name}",
        )
    if value is None:
        return
    low, high = DYNAMIC[name]
    try:
        number = int(value)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {value} for configuration {name}: a whole number from "
            f"{low} to {high} is needed",
        )
