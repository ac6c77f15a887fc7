"""Run the commands against several releases of Apache Kafka, one after the other.

    python -m tests.interop.versions build/kafka-versions             compare
    python -m tests.interop.versions build/kafka-versions --record    write the table
    python -m tests.interop.versions build/kafka-versions 0.11 1.1    some releases

It compares the outcomes with docs/kafka-versions.tsv, and fails when one differs or a
command succeeds with a wrong output. One broker runs at a time; a run of all releases
takes about five minutes, without the download.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from tests.interop.kafka import Unavailable
from tests.interop.versions.nodes import RELEASES, Release, fetch, running
from tests.interop.versions.steps import STEPS, Step
from tools.kafka_versions import TABLE, WORKS, read_table, write_page, write_table

STEP_S: Final = 90.0
MEMBER_S: Final = 60.0
RECORD: Final = "--record"
WRONG: Final = "wrong output: "
_UNDO: Final = re.compile(r"groups undo ([0-9a-f-]+)")
_ADDRESS: Final = re.compile(r"(/?127\.0\.0\.1|localhost):[0-9]+")
_UNSERVED: Final = re.compile(r"does not serve|is needed")
_NODE: Final = re.compile(r"\(id: [0-9]+ rack: \w+\)")


def main(words: list[str]) -> int:
    """Run the releases; return the exit code."""
    folder, *names = (word for word in words if word != RECORD)
    recorded = read_table(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    found: dict[str, dict[str, str]] = {}
    for release in RELEASES:
        if names and release.name not in names:
            continue
        try:
            found[release.name] = run_release(release, Path(folder).absolute())
        except Unavailable as reason:
            sys.stderr.write(f"Kafka {release.name} was not run: {reason}\n")
    wrong = [
        f"Kafka {name}: {step}: {outcome}"
        for name, outcomes in found.items()
        for step, outcome in outcomes.items()
        if outcome.startswith(WRONG)
    ]
    if RECORD in words and not wrong:
        TABLE.write_text(write_table({**recorded, **found}), encoding="utf-8")
        write_page()
    elif RECORD not in words:
        wrong += [
            f"Kafka {name}: {step}: {outcome!r}, recorded {before!r}"
            for name, outcomes in found.items()
            for step, outcome in outcomes.items()
            if (before := recorded.get(name, {}).get(step)) != outcome
        ]
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return int(bool(wrong))


def run_release(release: Release, folder: Path) -> dict[str, str]:
    """Run every step against a release; return the outcome of each row."""
    jars = fetch(release, folder)
    outcomes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with running(release, jars, directory / "kafka") as bootstrap:
            state = {"tmp": name, "undo": "none"}
            for step in STEPS:
                outcome = run_step(step, bootstrap, state)
                if outcomes.get(step.name, WORKS) == WORKS:
                    outcomes[step.name] = outcome
                sys.stderr.write(f"{release.name}  {step.name}: {outcome}\n")
    return outcomes


def run_step(step: Step, bootstrap: str, state: dict[str, str]) -> str:
    """Run one command; return WORKS or the reason of its failure."""
    if not step.needs_member:
        return run_command(step, bootstrap, state)
    with running_member(bootstrap):
        return run_command(step, bootstrap, state)


def run_command(step: Step, bootstrap: str, state: dict[str, str]) -> str:
    """Run one command in a process of its own."""
    words = [word.format(**state) for word in step.line.split()]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "coterie.cli.main", *words),
            *("--bootstrap-server", bootstrap),
        ],
        input=step.stdin,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": state["tmp"]},
    )
    text = done.stdout + done.stderr
    if undo := _UNDO.search(text):
        state["undo"] = undo[1]
    if done.returncode == step.code and re.search(step.expect, text):
        return WORKS
    if done.returncode == 0:
        return WRONG + " ".join(text.split())[:300]
    return reason_of(done.stdout, done.stderr)


def reason_of(stdout: str, stderr: str) -> str:
    """Return the first error of a failed command, without addresses."""
    lines = [*stderr.splitlines(), *stdout.splitlines()]
    unserved = [line for line in lines if _UNSERVED.search(line)]
    errors = [line for line in lines if re.match(r"(?i)error\b", line.strip())]
    (line,) = (unserved or errors or [each for each in lines if each.strip()])[:1]
    return _NODE.sub("", _ADDRESS.sub("the broker", line.strip())).replace("\t", " ")


@contextmanager
def running_member(bootstrap: str) -> Iterator[None]:
    """Run a consumer of the group `live` that has partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "live",
            "client.id": "versions-test",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    for _ in range(int(MEMBER_S)):
        consumer.poll(1.0)
        if consumer.assignment():
            break
    assert consumer.assignment(), "the consumer got no partitions"
    try:
        yield
    finally:
        consumer.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
