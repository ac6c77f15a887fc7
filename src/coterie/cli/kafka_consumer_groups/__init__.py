"""Apache Kafka's `kafka-consumer-groups.sh`: its options, tables, messages and CSV.

    coterie kafka-consumer-groups --bootstrap-server localhost:9092 --list

`grammar` and `checks` read a command line as Apache's tool reads it; one module an
action asks the cluster and says what it found as a `Report`; `tables` and `messages`
have Apache's bytes; `command` alone prints. Where we knowingly differ is written in
docs/kafka-consumer-groups.md; `--strict` leaves out what is ours.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code: 0 it went well, 1 it did not."""
    from coterie.cli.kafka_consumer_groups.command import run

    return run(arguments)
