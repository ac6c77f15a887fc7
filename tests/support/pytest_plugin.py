"""The arguments with which pytest loads Coterie's plugin in a run of its own.

An editable install has the entry point from the day of its installation on. A plugin
must not be loaded twice, so it is named only if the entry point is missing.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

MODULE: Final = "coterie.testing.plugin"
IS_INSTALLED: Final = any(
    each.value == MODULE for each in entry_points(group="pytest11", name="coterie")
)
PLUGIN: Final = () if IS_INSTALLED else ("-p", MODULE)
PLUGIN_ENVIRONMENT: Final = {} if IS_INSTALLED else {"PYTEST_PLUGINS": MODULE}
