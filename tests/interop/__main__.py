"""`python -m tests.interop FOLDER [PYTEST-ARGUMENT ...]`: these tests, Kafka beside us.

Its jars are fetched into FOLDER first. Where they cannot be had, that is said loudly
and fails nothing: the same tests have run against Coterie alone in `make test`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.interop.kafka import Unavailable, fetch_jars

ENVIRONMENT = "COTERIE_KAFKA_JARS"


def main(words: list[str]) -> int:
    """Run them; pytest's exit code."""
    try:
        jars = fetch_jars(Path(words[0]).absolute())
    except Unavailable as reason:
        sys.stderr.write(
            f"\n{'!' * 72}\nINTEROP SKIPPED: Apache Kafka cannot be had here: {reason}."
            f"\nNothing was compared with it.\n{'!' * 72}\n"
        )
        return 0
    os.environ[ENVIRONMENT] = str(jars)
    folder = str(Path(__file__).parent)
    return pytest.main([folder, "-q", *words[1:]])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
