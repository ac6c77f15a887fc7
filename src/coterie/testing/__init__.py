"""Kafka for tests: a real server in the process of the tests, with faults and a clock.

See docs/testing/ for the guide; `coterie.testing.plugin` has the fixtures for pytest.
Each name is imported on first use: pytest loads the plugin in every run, and only runs
that start a server pay for the import of one.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.testing.async_kafka import AsyncGroup, AsyncKafka
    from coterie.testing.groups import Group
    from coterie.testing.kafka import Kafka
    from coterie.testing.topics import Record

_WHERE = {
    "AsyncGroup": "async_kafka",
    "AsyncKafka": "async_kafka",
    "Group": "groups",
    "Kafka": "kafka",
    "Record": "topics",
}

__all__ = ["AsyncGroup", "AsyncKafka", "Group", "Kafka", "Record"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imports make little garbage, and collections take an eighth of their time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    finally:
        if was_enabled:
            gc.enable()
