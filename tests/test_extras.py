"""The libraries of the extras, compared with pyproject.toml."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement

from coterie.extras import EXTRA_OF
from tools.sources import ROOT

FOR_DEVELOPMENT = {"docs", "dev", "fuzz"}


def test_every_library_of_an_extra_is_listed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        extra: [Requirement(line) for line in lines]
        for extra, lines in project["optional-dependencies"].items()
        if extra not in FOR_DEVELOPMENT
    }
    declared: dict[str, set[str]] = {}
    for extra, requirements in extras.items():
        for each in requirements:
            # An extra may contain another one.
            inner = [part for name in each.extras for part in extras[name]]
            for library in inner or [each]:
                declared.setdefault(library.name, set()).add(extra)
    assert set(EXTRA_OF) == set(declared)
    assert all(extra in declared[library] for library, extra in EXTRA_OF.items())
