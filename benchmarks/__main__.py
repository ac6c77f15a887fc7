"""Run benchmarks and print their figures beside the bars.

`python -m benchmarks beside_kafka` prints the table of the README, the pure and the
compiled build side by side; with `--rows commit --rounds 2 --seconds 1`, a part of it.

Exits with 1 when a bar is missed beyond the tolerance, else with 0. A benchmark that
cannot run on this machine is reported and does not fail the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import pkgutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType

from rich.console import Console
from rich.table import Table

from benchmarks.harness.cpu import MachineUse
from benchmarks.harness.figures import Figure, Rounds, Skipped, reported
from benchmarks.harness.processes import environment_note
from benchmarks.harness.table import cpu_table, markdown, side_by_side

COLOURS = {"met": "green", "close": "yellow", "MISSED": "bold red", "-": "dim"}
PREFIXES = {"server": "", "pipeline": "pipeline_", "admin": "", "gateway": "gateway_"}
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
    if hasattr(module, "conditions"):
        console.print(module.conditions(), style="dim", highlight=False)
    figures: list[Figure] = []
    began = time.monotonic()
    measure: Callable[[Rounds], Iterable[Figure]] = module.measure
    try:
        for figure in reported(name, measure(rounds)):
            figures.append(figure)
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            console.print(f"{minutes}:{seconds:02}", style="dim", end=" ")
            console.print(figure_table([figure], header=False))
    except Skipped as reason:
        console.print(f"SKIPPED: {reason}", style="bold yellow")
    return figures


def figure_table(figures: Iterable[Figure], *, header: bool = True) -> Table:
    """Return a table of figures and their bars."""
    table = Table(show_header=header, box=None, pad_edge=False)
    for column in ("figure", "value", "bar", "verdict", "detail"):
        table.add_column(column)
    for figure in figures:
        bar = "" if figure.bar is None else f"{figure.side.value} {figure.bar:g}"
        verdict = f"[{COLOURS[figure.verdict]}]{figure.verdict}[/]"
        value = f"[bold]{figure.value:.2f}[/] {figure.unit}"
        name = f"{figure.name} [dim]{figure.build}[/]" if figure.build else figure.name
        detail = " | ".join(filter(None, (figure.ours, figure.other, figure.detail)))
        table.add_row(name, value, bar, verdict, detail)
    return table


def figures_json(figures: Iterable[Figure]) -> str:
    """Return figures as JSON."""
    rows = [
        dataclasses.asdict(figure)
        | {"side": figure.side.value, "verdict": figure.verdict}
        for figure in figures
    ]
    return json.dumps(rows, indent=1)


def print_summary(
    figures: list[Figure], console: Console, *, with_cpu: bool = False
) -> None:
    """Print all figures; those of both builds side by side."""
    console.rule("[bold]all figures")
    if alone := [figure for figure in figures if not figure.build]:
        console.print(figure_table(alone))
    if both := [figure for figure in figures if figure.build]:
        console.print(side_by_side(both))
        if with_cpu:
            console.print(cpu_table(both))


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    # Unlike the default action, an exception runs the code that stops the servers.
    del frame
    sys.exit(128 + number)


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
    parser.add_argument(
        "--rows",
        default="",
        metavar="REGEX",
        help="measure only the rows of beside_kafka whose names match",
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="print the server's CPU time of a request for each row, too",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the figures as JSON")
    output.add_argument(
        "--markdown",
        action="store_true",
        help="print the table of both builds as Markdown",
    )
    options = parser.parse_args(argv)
    if unknown := [name for name in options.name if name not in benchmarks]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(names)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_on_signal)
    console = Console(
        stderr=options.json or options.markdown,
        width=None if sys.stdout.isatty() else 200,
    )
    use = MachineUse()
    console.print(f"{environment_note()}, {use.start_note()}", style="dim")
    rounds = Rounds(options.rounds, options.seconds, options.rows)
    figures = [
        figure
        for name in options.name or names
        for figure in run_benchmark(name, benchmarks[name], rounds, console)
    ]
    print_summary(figures, console, with_cpu=options.cpu)
    console.print(use.end_note(), style="dim")
    if options.json:
        print(figures_json(figures))
    if options.markdown:
        print(markdown(figures))
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
