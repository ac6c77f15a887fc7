"""Kafka for tests: a real server in the process of the tests, with faults and a clock.

See docs/testing/ for the guide; `coterie.testing.plugin` has the fixtures for pytest.
"""

from coterie.testing.kafka import Kafka

__all__ = ["Kafka"]
