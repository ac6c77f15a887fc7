"""librdkafka's mock cluster as a process: a coordinator in C, one thread, no disk.

Run as a process by heartbeat_mock. It keeps nothing and knows few versions: a fair bar
for speed, none for correctness.
"""

from __future__ import annotations

import signal

from confluent_kafka import Producer

ANSWER_S = 10
TOPIC = "t"


def main() -> None:
    """Serve until told to stop."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    producer.list_topics(TOPIC, timeout=ANSWER_S)  # the mock makes what is asked for
    (broker,) = producer.list_topics(timeout=ANSWER_S).brokers.values()
    print(f"mock ready on {broker.host}:{broker.port}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
