"""librdkafka's mock cluster as a process: a group coordinator in C, on one thread.

It has no disk and supports few API versions: a reference for speed, not for
correctness.
"""

from __future__ import annotations

import signal

from confluent_kafka import Producer

TIMEOUT_S = 10
TOPIC = "t"


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    producer.list_topics(
        TOPIC, timeout=TIMEOUT_S
    )  # creates topics in metadata requests
    (broker,) = producer.list_topics(timeout=TIMEOUT_S).brokers.values()
    print(f"mock ready on {broker.host}:{broker.port}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
