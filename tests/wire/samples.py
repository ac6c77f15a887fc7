"""Random values of any declared message, made from its declaration.

With `random.Random(seed)` they are deterministic; with hypothesis' `st.randoms()` they
shrink. Only fields that the version has are set, so that a round trip is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from coterie.wire.api import ADVERTISED, CLIENT_ONLY, api_of
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import PRIVATE_TAG, Field, Message, Struct

INTEGERS: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS: Final = (
    "",
    "g",
    "grüppe-ß",
    "消費者",
    "\U0001f600",
    "topic.with_dots",
    "x" * 200,
)
DATE_MS_MAX: Final = 9_000_000_000_000
"""kio converts timestamps to dates by floats, which are exact until 2255."""
CODES: Final = [
    code.value for code in ErrorCode if code not in {99, 134, 135, 136, 16384}
]
"""The error codes that all judges have."""


def served() -> Iterator[tuple[type[Message], int]]:
    """Yield every message with every version that is served, or sent by the client."""
    for key in (*ADVERTISED, *CLIENT_ONLY):
        api = api_of(key)
        for version in range(api.served.low, api.served.high + 1):
            yield api.request, version
            yield api.response, version


def label(case: object) -> str:
    """Return the name of a test parameter."""
    return case.__name__ if isinstance(case, type) else f"v{case}"


def sample(cls: type[Struct], version: int, chance: Random) -> Any:
    """Return a value of `cls` with random contents in every field of the version."""
    values = {
        name: _value(name, declared, version, chance)
        for name, declared in cls.FIELDS.items()
        if version in declared.versions and not _is_ours(declared)
    }
    return cls(**values)


def _is_ours(declared: Field) -> bool:
    """Return whether the field is private to Coterie, and unknown to the judges."""
    return declared.tag is not None and declared.tag >= PRIVATE_TAG


def _value(name: str, declared: Field, version: int, chance: Random) -> Any:
    if version in declared.nullable and chance.random() < 0.25:
        return None
    if declared.kind == "array":
        return [_element(name, declared, version, chance) for _ in _repeat(chance)]
    if declared.kind == "struct":
        return _element(name, declared, version, chance)
    return _primitive(name, declared.kind, chance)


def _repeat(chance: Random) -> range:
    return range(chance.choice((0, 1, 1, 2, 3)))


def _element(name: str, declared: Field, version: int, chance: Random) -> Any:
    if isinstance(declared.element, str):
        return _primitive(name, declared.element, chance)
    assert declared.element is not None
    return sample(declared.element, version, chance)


def _primitive(name: str, kind: str, chance: Random) -> Any:
    if name.endswith("error_code"):
        return chance.choice(CODES)
    if kind in INTEGERS:
        return _integer(name, kind, chance)
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "float64":
        return chance.choice((0.0, -1.5, 1e300))
    if kind == "uuid":
        return chance.choice((bytes(16), chance.randbytes(16)))
    if kind == "string":
        return chance.choice(TEXTS)
    return chance.choice((b"", b"\0", chance.randbytes(150)))


def _integer(name: str, kind: str, chance: Random) -> int:
    low, high = INTEGERS[kind]
    if name.endswith(("_ms", "timestamp")) and kind == "int64":
        # kio has no null for this one, so that it refuses Kafka's -1 for "not started".
        low = 0 if name == "transaction_start_time_ms" else -1
        high = DATE_MS_MAX
    return chance.choice((0, 1, high, low, chance.randint(low, high)))
