"""librdkafka's mock cluster as a process: a group coordinator in C, on one thread.

It has no disk and supports few API versions: a reference for speed, not for
correctness.
"""

from __future__ import annotations

import signal

from confluent_kafka import Producer

TIMEOUT_S = 10
TOPICS = ("t", "m0", "m1", "m2", "m3", "m4")


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    for topic in TOPICS:  # a request for its metadata creates a topic
        producer.list_topics(topic, timeout=TIMEOUT_S)
    (broker,) = producer.list_topics(timeout=TIMEOUT_S).brokers.values()
    print(f"mock ready on {broker.host}:{broker.port}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
