"""Three real Kafka consumers share a topic on Coterie; one leaves, and one comes that
speaks the new protocol (KIP-848): the group migrates live. Who owns what? Then the log
that they just wrote becomes tables, which tell it again.

`make demo` runs it: it starts a server of its own on a free port with its data in a
temporary directory, uses confluent-kafka (librdkafka) for everything else, and ends by
itself. Every wait has a deadline and a sentence that says what did not happen.
"""

from __future__ import annotations

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
TABLES: Final = Path(__file__).parent.parent / "build" / "demo"
"""Where the tables and the report are kept; of the demo before, they are replaced."""
TABLES_S: Final = 600.0
"""Spark starts in some seconds, on a busy machine in some more."""
PROTOCOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "classic": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
    },
    "consumer": {"group.protocol": "consumer"},
}
# Kafka waits 3 s for company before it hands out the first assignment, and members of
# the new protocol are heard of every 5 s.
SERVER_SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
)

AGAIN: Final = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError._NO_OFFSET,  # noqa: SLF001 (its name for: nothing left to commit)
)

COTERIE: Final = (str(Path(sys.executable).with_name("coterie")),)

Owners: TypeAlias = Mapping[int, str]
"""For each partition the client id of its owner, as the coordinator tells it."""


class DemoFailed(Exception):
    """Something did not happen; the sentence says what."""


FAILURES: Final = (DemoFailed, KafkaException, TimeoutError)


class Member:
    """One consumer of the group, and what it has read."""

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
        """Read what is there, and commit it."""
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
        """Commit what was read; a rebalance may say: once more, after it."""
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in AGAIN:
                raise
        else:
            self.uncommitted = False


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """What every client is given; librdkafka's own log is left out of the picture."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A Coterie server of our own; yields its HOST:PORT and stops it afterwards."""
    command = [*COTERIE, "serve"]
    command += ["--listen", "127.0.0.1:0", "--data", str(directory / "data")]
    command += [part for one in SERVER_SETTINGS for part in ("--set", one)]
    said, log = directory / "stdout", directory / "stderr"
    with said.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    try:
        yield address(process, said)
    except FAILURES as failure:
        reason = str(failure) or "the server did not answer in time"
        raise DemoFailed(f"{reason}{last_lines(log)}") from None
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_lines(log: Path) -> str:
    """The end of what the server logged, if it did."""
    lines = log.read_text().splitlines()[-LOG_LINES:]
    return "\n".join(("\n\nThe server's last words:", *lines)) if lines else ""


def address(process: subprocess.Popen[bytes], said: Path) -> str:
    """The HOST:PORT the server says that it is ready on."""

    def ready() -> bool:
        if process.poll() is not None:
            raise DemoFailed("the server ended at once")
        return said.read_text().endswith("\n") and READY in said.read_text()

    wait_until(ready, "the server did not get ready")
    line = next(each for each in said.read_text().splitlines() if READY in each)
    return line.removeprefix(READY).split()[0]


def wait_until(
    happened: Callable[[], bool], otherwise: str, members: Sequence[Member] = ()
) -> None:
    """Poll the members until something has happened; DemoFailed after the deadline."""
    deadline = time.monotonic() + WAIT_S
    while not happened():
        if time.monotonic() > deadline:
            raise DemoFailed(f"{otherwise} within {WAIT_S:g} s")
        for member in members:
            member.poll()
        if not members:
            time.sleep(POLL_S)


def create_topic(admin: AdminClient) -> None:
    """Create the topic and wait until it is in the metadata."""
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    admin.create_topics([topic])[TOPIC].result(WAIT_S)

    def known() -> bool:
        found = admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC]
        return len(found.partitions) == PARTITIONS

    wait_until(known, f"the topic {TOPIC} did not appear")


def produce(bootstrap: str, count: int) -> Counter[int]:
    """Produce orders with an idempotent producer; how many went to each partition."""
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
    """Who owns which partition, asked of the coordinator; None until it is stable."""
    asked = admin.describe_consumer_groups([GROUP], request_timeout=WAIT_S)
    group = asked[GROUP].result(WAIT_S)
    if group.state != ConsumerGroupState.STABLE:
        return None
    return {
        partition.partition: member.client_id
        for member in group.members
        for partition in member.assignment.topic_partitions
    }


def settled_owners(admin: AdminClient, members: Sequence[Member]) -> Owners:
    """The owners, once these members and no others share every partition."""
    names = {member.name for member in members}
    seen: Owners = {}

    def settled() -> bool:
        nonlocal seen
        seen = owners(admin) or {}
        here = sum(len(member.consumer.assignment()) for member in members)
        return len(seen) == here == PARTITIONS and set(seen.values()) == names

    wait_until(settled, f"{', '.join(sorted(names))} did not settle", members)
    return seen


def committed(admin: AdminClient) -> dict[int, int]:
    """Every offset the group has committed; we name no partition (KIP-88)."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    found = asked[GROUP].result(WAIT_S).topic_partitions
    return {each.partition: each.offset for each in found}


def wait_for_commits(
    admin: AdminClient, members: Sequence[Member], ends: Mapping[int, int]
) -> dict[int, int]:
    """Let the members read to the end; the offsets they have committed then."""
    wait_until(
        lambda: committed(admin) == dict(ends),
        "the group did not read and commit every order",
        members,
    )
    return committed(admin)


def ownership_table(now: Owners, before: Owners | None = None) -> Table:
    """One line a partition: who owns it, and whether it moved."""
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
    """One line a partition: how far the group is."""
    table = Table()
    for heading in ("partition", "committed", "end", "lag"):
        table.add_column(heading, justify="right")
    for partition, end in sorted(ends.items()):
        at = offsets[partition]
        table.add_row(str(partition), str(at), str(end), str(end - at))
    return table


def play(console: Console, bootstrap: str) -> datetime:
    """The demo itself, against a server that is up; a time when all three shared."""
    admin = AdminClient(client(bootstrap))
    create_topic(admin)
    ends = produce(bootstrap, ORDERS)
    console.print(f"{ORDERS} orders are in the topic {TOPIC}, on the disk")

    members = [Member(bootstrap, name) for name in NAMES]
    try:
        before = settled_owners(admin, members)
        console.print(f"\n[bold]Three members of the group {GROUP} share it[/]")
        console.print(ownership_table(before))
        wait_for_commits(admin, members, ends)
        console.print(f"all {ORDERS} orders are read and committed")
        shared = datetime.now(UTC)

        leaver, *rest = members
        leaver.consumer.close()
        after = settled_owners(admin, rest)
        moved = sum(before[partition] != owner for partition, owner in after.items())
        title = f"{leaver.name} has left: {moved} of {PARTITIONS} partitions moved"
        console.print(f"\n[bold]{title}[/]")
        console.print(ownership_table(after, before))

        ends += produce(bootstrap, MORE_ORDERS)
        offsets = wait_for_commits(admin, rest, ends)
        console.print(f"{MORE_ORDERS} more orders were read by those who stayed")

        members.append(Member(bootstrap, NEWCOMER, "consumer"))
        mixed = settled_owners(admin, [*rest, members[-1]])
        title = f"{NEWCOMER} has come, by KIP-848: the group has migrated, live"
        console.print(f"\n[bold]{title}[/]")
        console.print(ownership_table(mixed, after))

        ends += produce(bootstrap, MORE_ORDERS)
        offsets = wait_for_commits(admin, [*rest, members[-1]], ends)
        console.print(f"{MORE_ORDERS} more orders were read by members of both kinds")
        console.print(f"\n[bold]The offsets that {GROUP} has committed[/]")
        console.print(offsets_table(offsets, ends))
        counts = ", ".join(f"{each.name} {each.read}" for each in members)
        console.print(f"orders read by each: {counts}")
    finally:
        for member in members:
            member.consumer.close()
    return shared


def coterie(console: Console, words: str) -> None:
    """Type a command of Coterie, which prints by itself."""
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
        raise DemoFailed(f"coterie {words} said: {done.stderr.strip()}")


def tell_from_tables(
    console: Console, data: Path, shared: datetime, home: Path
) -> None:
    """What happened once more, asked of the log that the consumers wrote."""
    lake, page = home / "lake", home / "report.html"
    shutil.rmtree(lake, ignore_errors=True)
    in_lake = f"--lake {shlex.quote(str(lake))}"
    console.print("\n[bold]The log that they wrote becomes tables[/] (Spark starts)")
    source, target = shlex.quote(f"store:{data}"), shlex.quote(str(lake))
    coterie(console, f"pipeline run --from {source} --to {target}")

    console.print(
        f"\n[bold]Who owned partition {PARTITION} while all three were there, and why"
        " did it move?[/]"
    )
    of_part = (
        f"pipeline show ownership {in_lake} --group {GROUP} --partition {PARTITION}"
    )
    coterie(console, f"{of_part} --at {shared:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z")
    console.print("\n[bold]And who had it, one after another?[/]")
    coterie(console, of_part)

    console.print("\n[bold]Which groups may go?[/]")
    coterie(console, f"pipeline show stale {in_lake} --all")

    console.print("\n[bold]All of it on one page[/]")
    coterie(console, f"pipeline report {in_lake} --to {shlex.quote(str(page))}")
    console.print(f"open it in a browser: {page.resolve().as_uri()}", soft_wrap=True)


def main(words: Sequence[str]) -> int:
    """Run the demo; 0 when everything happened that was promised. A word is where the
    tables and the report go."""
    home = Path(words[0]) if words else TABLES
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
            with server(Path(directory)) as bootstrap:
                console.print(f"[bold]Coterie serves on {bootstrap}[/], for this demo")
                shorter = f"with {', '.join(SERVER_SETTINGS)}, so that you wait less"
                console.print(f"[dim]{shorter}[/]")
                shared = play(console, bootstrap)
            tell_from_tables(console, Path(directory, "data"), shared, home)
    except DemoFailed as failure:
        console.print(f"[red]The demo failed:[/] {escape(str(failure))}")
        return 1
    console.print(NEXT)
    return 0


NEXT: Final = """
[bold]Where to go next[/]
  a server of your own       .venv/bin/coterie serve --listen 127.0.0.1:9092
  point any client at it     bootstrap.servers=127.0.0.1:9092
  look at the tables         .venv/bin/coterie pipeline show --help
  what is in them            docs/pipeline.md
  how it works, on one page  ARCHITECTURE.md
  what is proven of Kafka    docs/conformance.md
  the tests                  make test"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
