"""Run every command line of the table with both tools and compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from tests.cli.kafka_consumer_groups.in_process import run_in_process
from tests.interop.kafka import CommandOutput, GroupCommand

from .cases import Case
from .cluster import Cluster
from .differences import Run, compared
from .files import write_files

_DEAD: Final = "127.0.0.1:1"
_SHOWN: Final = 1_500


class Comparison(NamedTuple):
    """The comparison of one command line."""

    run: Run
    """With the outputs that must be equal."""
    differences: frozenset[str]
    """The ids of the differences that it shows."""

    @property
    def is_equal(self) -> bool:
        """Whether both tools print and do the same, declared differences excepted."""
        run = self.run
        return run.theirs == run.ours and run.their_state == run.our_state

    def __str__(self) -> str:
        run = self.run
        lines = [f"{run.words}"]
        pairs = zip(run.theirs._fields, run.theirs, run.ours, strict=True)
        for name, theirs, ours in (*pairs, ("state", run.their_state, run.our_state)):
            if theirs != ours:
                lines.append(f"  {name}, expected: {theirs!r:.{_SHOWN}}")
                lines.append(f"  {name}, Coterie:  {ours!r:.{_SHOWN}}")
        return "\n".join(lines)


def compare_all(
    cases: Iterable[Case], apache: GroupCommand, cluster: Cluster, files: Path
) -> list[Comparison]:
    """Run all command lines. Those that write run last, each on restored groups."""
    write_files(files)
    places = {
        "{broker}": cluster.bootstrap,
        "{dead}": _DEAD,
        "{files}": str(files),
    }
    reads: list[tuple[str, ...]] = []
    writes: list[tuple[str, ...]] = []
    for case in cases:
        words = tuple(_replaced(word, places) for word in case.words)
        (writes if case.writes else reads).append(words)
    usage = apache.run("--help").stderr.partition("\n")[2]
    runs = [*_reads(reads, apache, usage), *_writes(writes, apache, cluster, usage)]
    results = ((run, *compared(run)) for run in runs)
    return [Comparison(run, frozenset(used)) for _, run, used in results]


def _replaced(word: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _reads(
    lines: list[tuple[str, ...]], apache: GroupCommand, usage: str
) -> Iterator[Run]:
    theirs: list[CommandOutput] = []
    # Java waits for its brokers most of the time, while this process has the core.
    thread = Thread(target=lambda: theirs.extend(apache.run_all(lines)))
    thread.start()
    ours = [_ours(words) for words in lines]
    thread.join()
    for words, expected, output in zip(lines, theirs, ours, strict=True):
        yield Run(words, expected, output, usage)


def _writes(
    lines: list[tuple[str, ...]], apache: GroupCommand, cluster: Cluster, usage: str
) -> Iterator[Run]:
    cluster.restore()
    before = cluster.state()
    for words in lines:
        theirs = apache.run(*words)
        their_state = cluster.state()
        cluster.restore_from(their_state, before)
        ours = _ours(words)
        our_state = cluster.state()
        cluster.restore_from(our_state, before)
        yield Run(words, theirs, ours, usage, before, their_state, our_state)


def _ours(words: tuple[str, ...]) -> CommandOutput:
    return CommandOutput(*run_in_process("--strict", *words))
