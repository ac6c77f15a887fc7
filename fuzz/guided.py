"""Fuzz one decoder with atheris: python -m fuzz.guided NAME SECONDS."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["coterie"]):
    from coterie.errors import MalformedFrame
    from fuzz.targets import families


def main(name: str, seconds: str) -> None:
    """Fuzz a target until it fails or the time has passed."""
    (target,) = (one for one in families() if one.name == name)

    def run(data: bytes) -> None:
        try:
            target.run(data)
        except MalformedFrame:
            return

    with tempfile.TemporaryDirectory() as corpus:
        for index, data in enumerate(target.seeds):
            (Path(corpus) / str(index)).write_bytes(data)
        limits = [f"-max_total_time={seconds}", f"-artifact_prefix={corpus}/"]
        atheris.Setup([sys.argv[0], *limits, corpus], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
