"""The environment of tests, independent of the environment that pytest is started in.

Tests, the code that they call and the processes that they start inherit the variables
of pytest's process. `isolate` removes those with which people configure Coterie, their
terminal or a tool that tests start; a test sets what it needs. The variables of the
tests themselves begin with COTERIE_TEST_ and are kept.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

OWN: Final = "COTERIE_TEST_"
REAL_HOME: Final = "COTERIE_TEST_HOME"
"""The variable with the home directory of the user, for tools that keep downloads."""
PREFIXES: Final = (
    "AWS_",
    "CLICOLOR",
    "COTERIE_",
    "HADOOP_",
    "KAFKA_",
    "LC_",
    "PIP_",
    "PYSPARK_",
    "SPARK_",
    "UV_",
    "XDG_",
)
NAMES: Final = frozenset(
    {
        # Terminals and their programs.
        "BROWSER",
        "COLORTERM",
        "COLUMNS",
        "COMP_LINE",
        "COMP_POINT",
        "EDITOR",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LINES",
        "MANWIDTH",
        "NO_COLOR",
        "PAGER",
        "TERM",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "VISUAL",
        "_ARGCOMPLETE",
        # Python and pytest. PYTHONHASHSEED stays: it repeats a failure.
        "PYTEST_ADDOPTS",
        "PYTHONASYNCIODEBUG",
        "PYTHONDEVMODE",
        "PYTHONINSPECT",
        "PYTHONIOENCODING",
        "PYTHONOPTIMIZE",
        "PYTHONUTF8",
        "PYTHONWARNINGS",
        "PY_COLORS",
        # Tools that tests start.
        "BASH_ENV",
        "BUILD_NUMBER",
        "CDPATH",
        "CI",
        "ENV",
        "GITHUB_ACTIONS",
        "JAVA_HOME",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "MAKEFLAGS",
        "POSIXLY_CORRECT",
        "SOURCE_DATE_EPOCH",
        "SSLKEYLOGFILE",
        "_JAVA_OPTIONS",
    }
)
LOOPBACK: Final = "127.0.0.1,localhost,::1"


def isolate(environ: MutableMapping[str, str], home: str) -> None:
    """Remove what people configure, and set a home directory and a locale."""
    for name in list(environ):
        is_foreign = name in NAMES or name.startswith(PREFIXES)
        if is_foreign and not name.startswith(OWN):
            del environ[name]
    if "HOME" in environ:
        environ.setdefault(REAL_HOME, environ["HOME"])
    environ["HOME"] = home
    environ["LC_ALL"] = "C.UTF-8"
    # Downloads may need a proxy; servers of tests are not behind it.
    environ["NO_PROXY"] = environ["no_proxy"] = LOOPBACK
