"""A demo of the gateway: three nodes in front of three brokers of Apache Kafka.

The brokers are set to the classic group protocol. Consumers of both protocols share a
topic through the gateway; then one node and one broker are killed, and the demo shows
who owned what before and after.

`make demo-gateway` runs it, in about a minute. It needs Java 17 and Maven, which
fetches Kafka from Maven Central; everything runs on loopback, with its data in a
temporary directory. Every wait has a deadline.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, Self, TypeAlias

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from tests.interop.gateway.cluster import KafkaCluster
from tests.interop.gateway.nodes import GatewayNodes
from tests.interop.kafka import Unavailable, fetch_jars, version_of

TOPIC: Final = "orders"
PARTITIONS: Final = 6
SHARDS: Final = 12
NAME: Final = "demo"
GROUPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "billing": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 20_000,
        "heartbeat.interval.ms": 1_000,
    },
    "shipping": {"group.protocol": "consumer"},
}
"""The groups, and the settings of their consumers: classic and KIP-848."""
MEMBERS: Final = ("ada", "grace", "linus")
SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=1000",
)
WAIT_S: Final = 60.0
POLL_S: Final = 0.1
COTERIE: Final = str(Path(sys.executable).with_name("coterie"))

Owners: TypeAlias = dict[int, str]
"""The name of the owner by partition."""


class DemoFailed(Exception):
    """The error of a condition that was not met before its deadline."""


class Member:
    """A consumer in a thread that reads, and commits what it has read."""

    def __init__(self, bootstrap: str, group: str, name: str) -> None:
        self.name = name
        self.assigned: frozenset[int] = frozenset()
        self.read = 0
        self._stopped = Event()
        self._consumer = Consumer(
            {
                **client(bootstrap),
                "client.id": name,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 500,
                **GROUPS[group],
            }
        )
        self._consumer.subscribe([TOPIC])
        self._thread = Thread(target=self._run, name=f"{group}-{name}")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            records = self._consumer.consume(100, timeout=POLL_S)
            self.read += sum(1 for each in records if each.error() is None)
            owned: Sequence[TopicPartition] = self._consumer.assignment()
            self.assigned = frozenset(each.partition for each in owned)
        self._consumer.close()


class Orders:
    """A producer in a thread that writes orders without pause."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self._lock = Lock()
        self._stopped = Event()
        self._producer = Producer(
            {**client(bootstrap), "enable.idempotence": True, "linger.ms": 5}
        )
        self._thread = Thread(target=self._run, name="orders")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, and wait until every order is acknowledged."""
        self._stopped.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        for number in count():
            if self._stopped.wait(0.005):
                break
            self._producer.produce(
                TOPIC, f"order {number}", key=str(number), on_delivery=self._delivered
            )
            self._producer.poll(0)
        self._producer.flush(WAIT_S)

    def _delivered(self, error: object, _: object) -> None:
        with self._lock:
            self.acknowledged += error is None


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Return the configuration of every client, with librdkafka's log turned off."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def wait_until(condition: Callable[[], bool], failure: str) -> float:
    """Wait until a condition holds; return the seconds. Raises DemoFailed."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > WAIT_S:
            raise DemoFailed(f"{failure} within {WAIT_S:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - began_s


def owners(members: Sequence[Member]) -> Owners:
    """Return the owners of the partitions, as the consumers know them."""
    return {
        partition: member.name for member in members for partition in member.assigned
    }


def owners_table(
    before: Mapping[str, Owners], after: Mapping[str, Owners] | None = None
) -> Table:
    """Return a table with the owners of each group."""
    table = Table()
    table.add_column("partition", justify="right")
    for group in before:
        table.add_column(group)
    for partition in range(PARTITIONS):
        cells = []
        for group, own in before.items():
            owner = own.get(partition, "-")
            now = owner if after is None else after[group].get(partition, "-")
            cells.append(owner if now == owner else f"{owner} -> {now}")
        table.add_row(str(partition), *cells)
    return table


class Demo:
    """The demo against running brokers and nodes."""

    def __init__(
        self, console: Console, cluster: KafkaCluster, gateway: GatewayNodes
    ) -> None:
        self._console = console
        self._cluster = cluster
        self._gateway = gateway
        self._members: dict[str, list[Member]] = {}

    def play(self) -> None:
        """Run the demo. Raises DemoFailed."""
        bootstrap = self._gateway.bootstrap
        self._create_topic(bootstrap)
        with ExitStack() as stack:
            orders = stack.enter_context(Orders(bootstrap))
            for group in GROUPS:
                self._members[group] = [
                    stack.enter_context(Member(bootstrap, group, name))
                    for name in MEMBERS
                ]
            self._wait_until_shared()
            before = self._owners()
            self._title("Two groups share the topic through the gateway")
            self._console.print(
                "billing has consumers of the classic protocol, shipping of KIP-848, "
                "which these brokers do not speak"
            )
            self._console.print(owners_table(before))
            self._coterie("gateway", "status", "--name", NAME)
            self._kill_node(orders)
            self._kill_broker(orders)
            self._title("Owners before the failures, and now")
            self._console.print(owners_table(before, self._owners()))
            orders.stop()
            self._wait_until_committed()
        self._title(f"{orders.acknowledged} orders were acknowledged")
        self._console.print("both groups have committed all of them:")
        self._coterie("groups", "lag", *GROUPS, upstream=bootstrap)

    def _kill_node(self, orders: Orders) -> None:
        self._title("A node is killed (kill -9)")
        self._gateway.nodes[0].kill()
        waited_s = wait_until(self._is_taken_over, "the other nodes did not take over")
        self._console.print(f"the other two serve its groups after {waited_s:.1f} s")
        self._wait_until_progress(orders)
        self._coterie("gateway", "status", "--name", NAME)

    def _is_taken_over(self) -> bool:
        """Return whether the nodes that are left have all shards active."""
        statuses = [node.get("/status") for node in self._gateway.nodes[1:]]
        phases = [
            shard["phase"]
            for code, document in statuses
            if code
            for shard in document["shards"]
        ]
        return len(phases) == SHARDS and set(phases) == {"active"}

    def _kill_broker(self, orders: Orders) -> None:
        self._title("A broker of Kafka is killed (kill -9)")
        self._cluster.brokers[1].kill()
        waited_s = self._wait_until_progress(orders)
        self._console.print(
            f"orders are written, read and committed again after {waited_s:.1f} s"
        )

    def _wait_until_progress(self, orders: Orders) -> float:
        """Wait until both groups have read orders that were written later."""
        written = orders.acknowledged
        began_s = time.monotonic()
        wait_until(
            lambda: orders.acknowledged > written + 100, "no orders were written"
        )
        for group, members in self._members.items():
            read = sum(member.read for member in members)
            wait_until(
                lambda read=read, members=members: (  # type: ignore[misc]
                    sum(each.read for each in members) > read + 50
                ),
                f"{group} did not read",
            )
        return time.monotonic() - began_s

    def _wait_until_shared(self) -> None:
        for group, members in self._members.items():
            wait_until(
                lambda members=members: (  # type: ignore[misc]
                    len(owners(members)) == PARTITIONS
                    and all(each.assigned for each in members)
                ),
                f"the members of {group} did not share the topic",
            )

    def _wait_until_committed(self) -> None:
        partitions = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        for group in GROUPS:
            reader = Consumer({**client(self._gateway.bootstrap), "group.id": group})
            try:
                wait_until(
                    lambda reader=reader: all(  # type: ignore[misc]
                        each.offset == reader.get_watermark_offsets(each)[1]
                        for each in reader.committed(partitions, timeout=WAIT_S)
                    ),
                    f"{group} did not commit every order",
                )
            finally:
                reader.close()

    def _owners(self) -> dict[str, Owners]:
        return {group: owners(members) for group, members in self._members.items()}

    def _create_topic(self, bootstrap: str) -> None:
        admin = AdminClient(client(bootstrap))
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3)
        admin.create_topics([topic])[TOPIC].result(WAIT_S)

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _coterie(self, *words: str, upstream: str = "") -> None:
        """Run a command and show it with its output."""
        self._console.print(f"[dim]$ coterie {' '.join(words)}[/]")
        bootstrap = upstream or self._cluster.bootstrap
        done = subprocess.run(
            [COTERIE, *words, "--bootstrap-server", bootstrap],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        self._console.print(f"{done.stdout}{done.stderr}", markup=False)


def main(words: Sequence[str], console: Console | None = None) -> int:
    """Run the demo with Kafka's jars in the folder `words[0]`; return an exit code."""
    console = console or Console()
    try:
        jars = fetch_jars(Path(words[0] if words else "build/kafka").absolute())
    except Unavailable as reason:
        console.print(
            f"The demo cannot run here: {reason}. It starts three brokers of Apache "
            "Kafka, which needs Java 17 or later, and Maven to fetch Kafka's jars from "
            "Maven Central. Nothing was started; make demo needs neither."
        )
        return 1
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        try:
            _run(console, jars, Path(directory))
        except (DemoFailed, KafkaException, AssertionError) as failure:
            console.print(f"\n[bold red]The demo failed:[/] {failure}", markup=True)
            return 1
    console.print(
        f"\nEverything is stopped, after {time.monotonic() - began_s:.0f} s. "
        "docs/gateway.md sets up a gateway in front of your own cluster."
    )
    return 0


def _run(console: Console, jars: Path, directory: Path) -> None:
    console.print(
        f"[bold]Starting three brokers of Apache Kafka {version_of(jars)}[/], set to "
        "the classic group protocol (10 s)"
    )
    with KafkaCluster(jars, directory / "kafka") as cluster:
        console.print("[bold]Starting three gateway nodes in front of them[/]")
        settings = [word for each in SETTINGS for word in ("--set", each)]
        with GatewayNodes(cluster.bootstrap, NAME, settings) as gateway:
            Demo(console, cluster, gateway).play()
            console.print("\nStopping consumers, nodes and brokers")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
