"""Hooks on the calls that write to files, to fail or to observe each of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from coterie import portable_os

CALLS = {
    "pwritev": portable_os,
    "pwrite": portable_os,
    "fdatasync": portable_os,
    "fsync": os,
    "ftruncate": os,
    "replace": os,
    "unlink": os,
}


class FileCalls:
    """Calls `before(name)` before each call that changes or syncs a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: Callable[[str], None] | None = None
        self.count = 0
        self._here = _Here()
        for name, module in CALLS.items():
            monkeypatch.setattr(module, name, self._hooked(name, getattr(module, name)))

    def fail(self, number: int, error: int) -> None:
        """Let the call with this number from now on fail, and those after it too until
        `before` is reset."""
        self.count = 0

        def before(_: str) -> None:
            self.count += 1
            if self.count >= number:
                raise OSError(error, os.strerror(error))

        self.before = before

    def _hooked(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.before is not None and not self._here.is_inside:
                self._here.is_inside = True  # `before` may call these functions itself
                try:
                    self.before(name)
                finally:
                    self._here.is_inside = False
            return real(*args, **kwargs)

        return call


class _Here(threading.local):
    is_inside = False
