"""`python -m benchmarks [NAME ...]`: ask questions, print figures beside their bars.

Each module of this package that has a `measure` is a question. Exits with 1 when a bar
was missed beyond what rounds differ by, 0 otherwise; a question that cannot be asked
here is named loudly and fails nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterable
from types import ModuleType

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.figures import Bar, Figure, Rounds, Skipped
from benchmarks.processes import environment_note

COLOURS = {"met": "green", "close": "yellow", "MISSED": "bold red", "-": "dim"}


def questions() -> dict[str, ModuleType]:
    """Every question by name."""
    names = (one.name for one in pkgutil.iter_modules(benchmarks.__path__))
    modules = {
        name: importlib.import_module(f"benchmarks.{name}")
        for name in names
        if not name.startswith("_")
    }
    return {name: one for name, one in modules.items() if hasattr(one, "measure")}


def ask(module: ModuleType, rounds: Rounds, console: Console) -> list[Figure]:
    """Ask one question and show its figures as they come."""
    assert module.__doc__ is not None
    console.rule(f"[bold]{module.__name__.partition('.')[2]}")
    console.print(module.__doc__.strip(), style="dim", highlight=False)
    figures: list[Figure] = []
    measure: Callable[[Rounds], Iterable[Figure]] = module.measure
    try:
        for figure in measure(rounds):
            figures.append(figure)
            console.print(table([figure], header=False))
    except Skipped as reason:
        console.print(f"SKIPPED: {reason}", style="bold yellow")
    except RuntimeError as error:  # the other questions are still worth their answers
        console.print(f"BROKEN: {error}", style="bold red", markup=False)
        figures.append(broken(module))
    return figures


def broken(module: ModuleType) -> Figure:
    """What stands for a question that a server died on or answered with errors."""
    return Figure(
        name=f"{module.__name__.partition('.')[2]} could not be measured",
        value=1,
        unit="failure",
        bar=0,
        side=Bar.AT_MOST,
    )


def table(figures: Iterable[Figure], *, header: bool = True) -> Table:
    """Figures beside their bars."""
    drawn = Table(show_header=header, box=None, pad_edge=False)
    for column in ("figure", "value", "bar", "verdict", "how it came"):
        drawn.add_column(column)
    for one in figures:
        bar = "" if one.bar is None else f"{one.side.value} {one.bar:g}"
        verdict = f"[{COLOURS[one.verdict]}]{one.verdict}[/]"
        value = f"[bold]{one.value:.2f}[/] {one.unit}"
        drawn.add_row(one.name, value, bar, verdict, one.detail)
    return drawn


def as_json(figures: Iterable[Figure]) -> str:
    """Figures for a script."""
    rows = [
        dataclasses.asdict(one) | {"side": one.side.value, "verdict": one.verdict}
        for one in figures
    ]
    return json.dumps(rows, indent=1)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    known = sorted(questions())
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"all, or: {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds a side (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="a round takes (2)")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.name if name not in known]:
        parser.error(f"no question {', '.join(unknown)}; there are {', '.join(known)}")
    asked.name = asked.name or known
    return asked


def main(argv: list[str] | None = None) -> int:
    """Ask, print, and say by the exit code whether a bar was missed."""
    asked = arguments(argv)
    console = Console(stderr=asked.json, width=None if sys.stdout.isatty() else 160)
    console.print(environment_note(), style="dim")
    rounds = Rounds(asked.rounds, asked.seconds)
    known = questions()
    figures = [f for name in asked.name for f in ask(known[name], rounds, console)]
    console.rule("[bold]all figures")
    console.print(table(figures))
    if asked.json:
        print(as_json(figures))
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
