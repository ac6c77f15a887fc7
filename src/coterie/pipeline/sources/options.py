"""The options of our data sources that say what to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.errors import SettingError
from coterie.pipeline.sources.source import Source, open_source

_OWN: Final = "source."


def source_of(options: Mapping[str, str]) -> Source:
    """What the option `source`, or the path of `load(PATH)`, names, with its own
    options: those that begin with "source.". Raises SettingError."""
    text = options.get("source") or options.get("path")
    if not text:
        raise SettingError(
            "say what to read: .option('source', 'segments:DIR'), 'store:DIR' or"
            " 'kafka:HOST:PORT'"
        )
    own = {
        name.removeprefix(_OWN): value
        for name, value in options.items()
        if name.startswith(_OWN)
    }
    return open_source(text, **own)
