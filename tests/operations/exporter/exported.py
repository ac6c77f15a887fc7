"""A cluster for tests of the exporter, and its metrics as a parser reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from coterie.client.admin.groups import ClusterDescription
from coterie.errors import CoterieError
from coterie.operations.exporter.poll import PollOptions, TopicFilter
from coterie.operations.selection import Selection
from coterie.types import TopicPartition
from tests.operations.fake_admin import NODE, FakeAdmin, FakeLog, group, member

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW_MS = 100_000


@dataclass
class ExportedAdmin(FakeAdmin):
    """A cluster that may be down."""

    outage: CoterieError | None = None

    async def __aenter__(self) -> ExportedAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.record("close")

    async def describe_cluster(self) -> ClusterDescription:
        if self.outage:
            raise self.outage
        return ClusterDescription("cluster-1", 1, (NODE,))


def small_cluster() -> ExportedAdmin:
    """Return a cluster with a group of two members and one without members."""
    admin = ExportedAdmin(
        known_logs={
            T0: FakeLog.of(0, 100),
            T1: FakeLog.of(50, 80),
            U0: FakeLog.of(0, 10),
        }
    )
    admin.add(group("orders", member("a", ("t", 0), ("t", 1)), member("b")), t=40)
    admin.commits["orders"][T1] = None
    admin.add(group("billing"), u=10)
    return admin


def options(**changes: Any) -> PollOptions:
    """Return a plan that polls every group each 30 s."""
    return PollOptions(
        **{
            "selection": Selection(),
            "topics": TopicFilter(),
            "interval_ms": 30_000,
            **changes,
        }
    )


class Samples(dict[str, dict[frozenset[tuple[str, str]], float]]):
    """Values by the name of their metric and their labels."""

    @classmethod
    def read(cls, text: bytes, *, openmetrics: bool = False) -> Samples:
        """Parse a text; no series may occur twice."""
        samples = cls()
        parse = parse_openmetrics if openmetrics else text_string_to_metric_families
        for family in parse(text.decode()):
            for each in family.samples:
                series = samples.setdefault(each.name, {})
                labels = frozenset(each.labels.items())
                assert labels not in series, each
                series[labels] = each.value
        return samples

    def of(self, name: str, **labels: str) -> float | None:
        """Return the value of the one series with these labels, or None."""
        found = [
            value
            for key, value in self.get(name, {}).items()
            if frozenset(labels.items()) <= key
        ]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None
