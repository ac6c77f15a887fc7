"""The jars of Kafka Streams, Connect and MirrorMaker 2 for the tests of this folder.

`make ecosystem` fetches them. Without them the tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

JARS: Final = "COTERIE_TEST_ECOSYSTEM_JARS"


@pytest.fixture
def jars() -> Path:
    """Return the folder of the jars."""
    if JARS not in os.environ:
        pytest.skip("runs programs of Apache Kafka: make ecosystem")
    return Path(os.environ[JARS])
