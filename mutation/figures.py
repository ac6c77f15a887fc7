"""The figures of mutation runs in docs/mutants.tsv, for the conformance page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final, NamedTuple

from mutation.sandbox import ROOT

FIGURES: Final = ROOT / "docs" / "mutants.tsv"
HEADING: Final = "package\tmutants\tkilled\tequivalent\tseed\tdate"


class Counts(NamedTuple):
    """The mutants of a run: all, those killed and those known to be equivalent."""

    mutants: int
    killed: int
    equivalent: int


def write_figures(counts: Mapping[str, Counts], seed: int) -> None:
    """Write a line for each name, and keep the lines of all other names."""
    lines = {}
    if FIGURES.exists():
        for line in FIGURES.read_text(encoding="utf-8").splitlines()[1:]:
            lines[line.partition("\t")[0]] = line
    today = dt.datetime.now(dt.UTC).date()
    for name, of_name in counts.items():
        lines[name] = "\t".join(map(str, (name, *of_name, seed, today)))
    text = "\n".join([HEADING, *(lines[name] for name in sorted(lines))])
    FIGURES.write_text(text + "\n", encoding="utf-8")
