"""Faults of the disk under a server process: fault_layer.c, built and controlled."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fault_layer.c")
KILL = -9
"""The code that kills the process instead."""
_CONTROL = struct.Struct("=5q")


class FaultLayer:
    """A layer between one server process and the files of its store."""

    def __init__(self, folder: Path, path_part: str) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler (gcc or cc) for the fault layer")
        self._library = folder / "fault_layer.so"
        build = [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library)]
        subprocess.run([*build, str(SOURCE), "-ldl"], check=True)
        self._path_part = path_part
        self._file = folder / "control"
        self._file.write_bytes(bytes(_CONTROL.size))
        with self._file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _CONTROL.size)

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Put the layer under the processes that start in a `with` block."""
        names = {
            "LD_PRELOAD": str(self._library),
            "COTERIE_FAULT_CONTROL": str(self._file),
            "COTERIE_FAULT_PATH": self._path_part,
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in names.items():
                patch.setenv(name, value)
            yield

    def arm(self, at: int, code: int, times: int = 1) -> None:
        """Fail the call with number `at` from now on, and those after it: `times`."""
        _CONTROL.pack_into(self._map, 0, 0, times, code, self.calls, self.failures)
        self._map[:8] = struct.pack("=q", at)

    def disarm(self) -> None:
        """Let all calls pass."""
        self._map[:8] = bytes(8)

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return int(_CONTROL.unpack_from(self._map)[3])

    @property
    def failures(self) -> int:
        """The number of failed calls so far."""
        return int(_CONTROL.unpack_from(self._map)[4])
