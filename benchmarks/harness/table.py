"""The table of both builds: each row has the pure build, the compiled one, their bars.

Figures with a `build` are its cells; figures of one name are one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.harness.figures import Bar, Figure

PURE, COMPILED = "pure", "compiled"
NOT_BUILT = "not built: make compiled"
COLUMNS = ("load", "beside", PURE, "bar", COMPILED, "bar")
CPU_COLUMNS = ("server CPU, us a request", "beside", PURE, COMPILED)
LIMITS = {Bar.AT_LEAST: "or more", Bar.AT_MOST: "or less"}


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one name by build."""

    name: str
    cells: Mapping[str, Figure]

    @property
    def any_cell(self) -> Figure:
        """The figure of the first build that was measured."""
        return next(iter(self.cells.values()))


def rows_of(figures: Iterable[Figure]) -> list[Row]:
    """Return the rows in the order of measurement; other figures are left out."""
    rows: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        if figure.build:
            rows.setdefault(figure.name, {})[figure.build] = figure
    return [Row(name, cells) for name, cells in rows.items()]


def value_text(figure: Figure) -> str:
    """Return a value with its unit; a ratio has none.

    A third decimal tells a value just below its bar from the bar.
    """
    digits = 0 if figure.value >= 100 else 1 if figure.value >= 10 else 2
    if digits == 2 and figure.bar is not None:
        digits += f"{figure.value:.2f}" == f"{figure.bar:.2f}"
    number = f"{figure.value:,.{digits}f}"
    return number if figure.unit == "ratio" else f"{number} {figure.unit}"


def is_below_bar(figure: Figure) -> bool:
    """Return whether a figure misses its bar, within the tolerance or beyond it."""
    return figure.verdict not in ("met", "-")


def bar_text(figure: Figure) -> str:
    """Return a bar with its direction."""
    return "-" if figure.bar is None else f"{figure.bar:g} {LIMITS[figure.side]}"


def texts(row: Row, missed: str, built: bool) -> Iterator[str]:
    """Return the texts of a row's columns; `missed` formats the cells below a bar."""
    yield row.name
    yield row.any_cell.other
    for build in (PURE, COMPILED):
        figure = row.cells.get(build)
        if figure is None:
            yield "not measured" if built or build == PURE else NOT_BUILT
            yield "-"
            continue
        text = value_text(figure)
        if is_below_bar(figure):
            text = missed.format(text)
        yield f"{text} ({figure.ours})" if figure.ours else text
        yield bar_text(figure)


def _is_built(rows: Iterable[Row]) -> bool:
    return any(COMPILED in row.cells for row in rows)


def side_by_side(figures: Iterable[Figure]) -> Table:
    """Return the table of both builds for a terminal."""
    rows = rows_of(figures)
    built = _is_built(rows)
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*texts(row, "[bold red]{} MISSED[/]", built))
    return table


def markdown(figures: Iterable[Figure]) -> str:
    """Return the table of both builds as Markdown, for the README."""
    rows = rows_of(figures)
    built = _is_built(rows)
    lines = [_line(COLUMNS), "|" + "---|" * len(COLUMNS)]
    lines += [_line(list(texts(row, "**{}, missed**", built))) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cpu_table(figures: Iterable[Figure]) -> Table:
    """Return the servers' CPU time for a request, for the rows that measure it."""
    table = Table(*CPU_COLUMNS, box=None, pad_edge=False)
    for row in rows_of(figures):
        times = [row.any_cell.other_cpu_us]
        times += [
            row.cells[build].cpu_us if build in row.cells else None
            for build in (PURE, COMPILED)
        ]
        if any(times):
            table.add_row(
                row.name, *("-" if us is None else f"{us:.1f}" for us in times)
            )
    return table
