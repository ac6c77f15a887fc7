"""`python -m mutation`: run mutants of src against the tests.

--facts, --file and --sample run named mutants of rows of docs/facts.tsv; a row is shown
when one of its own tests fails on its mutant.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from mutation.figures import Counts, write_figures
from mutation.named import (
    InvalidMutant,
    NamedMutant,
    problems,
    read_mutants,
    texts_of_mutants,
)
from mutation.named_run import KILLED, RowResult, draw_rows, prepare, run_rows
from mutation.sandbox import pool_of_sandboxes
from tools.sources import read_sources

SAMPLE: Final = "facts"
"""The name of rows of docs/facts.tsv in docs/mutants.tsv."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 unless every mutant is killed."""
    options = _arguments().parse_args(words)
    try:
        mutants = read_mutants(texts_of_mutants())
    except InvalidMutant as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.check:
        return _check(mutants)
    facts = _chosen(options, mutants)
    if not facts:
        sys.stderr.write(
            "no rows are chosen: give --facts, --file, --all or --sample\n"
        )
        return 2
    results = _run(facts, mutants, options.jobs)
    for result in results:
        if result.status != KILLED or options.verbose:
            print(result)
    counts = Counter(result.status for result in results)
    print(f"{len(results)} rows: {_counted(counts)}")
    if options.json is not None:
        rows = [result._asdict() for result in results]
        text = json.dumps({"seed": options.seed, "rows": rows}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.write:
        write_figures({SAMPLE: Counts(len(results), counts[KILLED], 0)}, options.seed)
    return 0 if counts[KILLED] == len(results) else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--facts", help="ids of rows, separated by commas")
    parser.add_argument(
        "--file", action="append", help="file of mutation/facts; may be repeated"
    )
    parser.add_argument("--all", action="store_true", help="all rows with a mutant")
    parser.add_argument(
        "--sample", type=int, metavar="COUNT", help="number of tested rows to draw"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument(
        "--check", action="store_true", help="only check that each mutant applies"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument(
        "--write", action="store_true", help="write the counts to docs/mutants.tsv"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print all rows")
    return parser


def _check(mutants: list[NamedMutant]) -> int:
    texts = {source.path: source.text for source in read_sources()}
    found = list(problems(mutants, texts))
    for mutant, problem in found:
        print(f"mutation/facts/{mutant.origin}: {mutant.ids}: {problem}")
    print(f"{len(mutants)} mutants, {len(found)} problems")
    return bool(found)


def _chosen(options: argparse.Namespace, mutants: Iterable[NamedMutant]) -> list[str]:
    """Return the ids of the rows to run."""
    chosen = list(options.facts.split(",")) if options.facts else []
    for mutant in mutants:
        if options.all or mutant.origin in (options.file or ()):
            chosen += mutant.facts
    if options.sample:
        chosen += draw_rows(options.sample, options.seed)
    return sorted({fact.strip() for fact in chosen})


def _run(
    facts: list[str], mutants: Sequence[NamedMutant], jobs: int
) -> list[RowResult]:
    """Run the rows with a progress bar on standard error, if that is a terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        pool_of_sandboxes(jobs) as pool,
        Progress(TextColumn("{task.description:28}"), *columns) as progress,
    ):
        bar = progress.add_task("rows without mutants", total=len(facts))
        prepared = prepare(facts, pool, jobs)
        progress.update(bar, description="rows with their mutants")
        results = []
        for result in run_rows(facts, mutants, prepared, pool):
            results.append(result)
            progress.advance(bar)
    return sorted(results)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
