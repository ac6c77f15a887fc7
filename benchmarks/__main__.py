"""Run benchmarks and print their figures beside the bars.

Exits with 1 when a bar is missed beyond the tolerance, else with 0. A benchmark that
cannot run on this machine is reported and does not fail the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table

from benchmarks.harness.figures import Bar, Figure, Rounds, Skipped
from benchmarks.harness.processes import environment_note

COLOURS = {"met": "green", "close": "yellow", "MISSED": "bold red", "-": "dim"}
PREFIXES = {"server": "", "pipeline": "pipeline_", "admin": ""}
"""The packages with benchmarks, and the prefix of their names."""


def find_benchmarks() -> dict[str, str]:
    """Return the modules of the benchmarks by name.

    A benchmark is imported only when it runs, because an import, such as
    pyarrow.dataset, may change the speed of another benchmark.
    """
    benchmarks = {}
    for package_name, prefix in PREFIXES.items():
        package = importlib.import_module(f"benchmarks.{package_name}")
        for entry in pkgutil.iter_modules(package.__path__):
            benchmarks[prefix + entry.name] = f"{package.__name__}.{entry.name}"
    return benchmarks


def run_benchmark(
    name: str, module_name: str, rounds: Rounds, console: Console
) -> list[Figure]:
    """Run one benchmark and print each figure as soon as it is measured."""
    module = importlib.import_module(module_name)
    assert module.__doc__ is not None
    console.rule(f"[bold]{name}")
    console.print(module.__doc__.strip(), style="dim", highlight=False)
    figures: list[Figure] = []
    measure: Callable[[Rounds], Iterable[Figure]] = module.measure
    try:
        for figure in measure(rounds):
            figures.append(figure)
            console.print(figure_table([figure], header=False))
    except Skipped as reason:
        console.print(f"SKIPPED: {reason}", style="bold yellow")
    except RuntimeError as error:  # the others still run
        console.print(f"BROKEN: {error}", style="bold red", markup=False)
        figures.append(_failure_figure(name))
    return figures


def _failure_figure(name: str) -> Figure:
    return Figure(
        name=f"{name} could not be measured",
        value=1,
        unit="failure",
        bar=0,
        side=Bar.AT_MOST,
    )


def figure_table(figures: Iterable[Figure], *, header: bool = True) -> Table:
    """Return a table of figures and their bars."""
    table = Table(show_header=header, box=None, pad_edge=False)
    for column in ("figure", "value", "bar", "verdict", "detail"):
        table.add_column(column)
    for figure in figures:
        bar = "" if figure.bar is None else f"{figure.side.value} {figure.bar:g}"
        verdict = f"[{COLOURS[figure.verdict]}]{figure.verdict}[/]"
        value = f"[bold]{figure.value:.2f}[/] {figure.unit}"
        table.add_row(figure.name, value, bar, verdict, figure.detail)
    return table


def figures_json(figures: Iterable[Figure]) -> str:
    """Return figures as JSON."""
    rows = [
        dataclasses.asdict(figure)
        | {"side": figure.side.value, "verdict": figure.verdict}
        for figure in figures
    ]
    return json.dumps(rows, indent=1)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks of a command line; return the exit code."""
    benchmarks = find_benchmarks()
    names = sorted(benchmarks)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "name", nargs="*", help=f"benchmark to run (default: all): {', '.join(names)}"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of rounds per side (default 5)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="length of a round (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.name if name not in benchmarks]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(names)}")
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else 160)
    console.print(environment_note(), style="dim")
    rounds = Rounds(options.rounds, options.seconds)
    figures = [
        figure
        for name in options.name or names
        for figure in run_benchmark(name, benchmarks[name], rounds, console)
    ]
    console.rule("[bold]all figures")
    console.print(figure_table(figures))
    if options.json:
        print(figures_json(figures))
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
