"""The sync of a whole file system, where it reports errors of writing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coterie.broker.log.checkpoint import _FileSystem


@pytest.mark.pure
@pytest.mark.posix
@pytest.mark.parametrize(
    ("platform", "release", "is_supported"),
    [
        ("linux", "5.8.0", True),
        ("linux", "6.1.0-17-generic", True),
        ("linux", "5.7.19", False),
        ("linux", "4.19.0", False),
        ("linux", "unknown", False),
        ("darwin", "23.1.0", False),
    ],
)
def test_a_file_system_is_synced_at_once_from_linux_5_8_on(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    platform: str,
    release: str,
    is_supported: bool,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    file_system = _FileSystem(tmp_path)
    assert (file_system._descriptor is not None) is is_supported
    if not is_supported:
        assert not file_system.sync()
    file_system.close()
