"""The metrics of a poll as text."""

from __future__ import annotations

import asyncio
import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.client.admin.groups import GroupType
from coterie.errors import ApiError
from coterie.operations.exporter.exposition import Granularity, Style, render
from coterie.operations.exporter.names import FAMILIES, KMINION, NAMES, Names
from coterie.operations.exporter.poll import Poller
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .exported import NOW_MS, T1, ExportedAdmin, Samples, options, small_cluster

GROUP = "kafka_consumergroup_group_"
KLE = "kafka_consumergroup_"


def exported(
    admin: ExportedAdmin, style: Style | None = None, *, openmetrics: bool = False
) -> Samples:
    poller = Poller(admin, options(), now_ms=lambda: NOW_MS)
    text = render(asyncio.run(poller.poll()), style or Style())
    end = b"# EOF\n" if openmetrics else b""
    body = text.plain(openmetrics=openmetrics, end=end)
    plain = b"".join(body.parts())
    assert len(plain) == body.size
    packed = b"".join(text.packed(openmetrics=openmetrics, end=end).parts())
    assert gzip.decompress(packed) == plain
    return Samples.read(plain, openmetrics=openmetrics)


def test_partitions_have_the_names_and_labels_of_kafka_lag_exporter() -> None:
    samples = exported(small_cluster())
    part = {
        "cluster_name": "cluster-1",
        "group": "orders",
        "topic": "t",
        "partition": "0",
    }
    assert samples.of(f"{GROUP}offset", **part) == 40
    assert samples.of(f"{GROUP}lag", **part) == 60
    assert samples.of(f"{GROUP}lag_seconds", **part) == 60
    assert set(samples[f"{GROUP}lag"]) == {
        frozenset(part.items()),
        frozenset({**part, "group": "billing", "topic": "u"}.items()),
    }
    assert samples.of("kafka_partition_earliest_offset", topic="t", partition="1") == 50
    assert samples.of("kafka_partition_latest_offset", topic="t", partition="1") == 80
    assert samples.of(f"{GROUP}max_lag", group="orders") == 60
    assert samples.of(f"{GROUP}sum_lag", group="orders") == 60
    assert samples.of(f"{GROUP}max_lag_seconds", group="orders") == 60
    assert samples.of(f"{GROUP}topic_sum_lag", group="orders", topic="t") == 60
    assert samples.of(f"{KLE}poll_time_ms") is not None


def test_groups_have_members_state_and_counts() -> None:
    admin = small_cluster()
    admin.known_groups["orders"] = replace(
        admin.known_groups["orders"],
        type=GroupType.CONSUMER,
        group_epoch=7,
        assignment_epoch=6,
    )
    samples = exported(admin)
    info = {"state": "Stable", "type": "consumer", "protocol": "range"}
    assert samples.of(f"{GROUP}info", group="orders", **info) == 1
    assert samples.of(f"{GROUP}members", group="orders") == 2
    assert samples.of(f"{GROUP}empty_members", group="orders") == 1
    assert samples.of(f"{GROUP}epoch", group="orders") == 7
    assert samples.of(f"{GROUP}assignment_epoch", group="orders") == 6
    assert samples.of(f"{GROUP}epoch", group="billing") is None
    assert samples.of(f"{GROUP}rebalances_total", group="orders") == 0
    assert samples.of(f"{GROUP}topic_members", group="orders", topic="t") == 1
    assert (
        samples.of(f"{GROUP}topic_assigned_partitions", group="orders", topic="t") == 2
    )
    assert samples.of(f"{GROUP}partitions", group="orders", status="no_commit") == 1
    assert (
        samples.of(f"{GROUP}lag_seconds_partitions", group="orders", method="exact")
        == 1
    )


def test_an_unknown_value_has_no_series() -> None:
    admin = small_cluster()
    admin.commit_errors["billing"] = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    samples = exported(admin)
    for name in ("offset", "lag", "lag_seconds"):
        assert samples.of(f"{GROUP}{name}", group="orders", partition="1") is None
    for name in ("max_lag", "sum_lag", "max_lag_seconds"):
        assert samples.of(f"{GROUP}{name}", group="billing") is None
    values = [value for series in samples.values() for value in series.values()]
    assert all(value >= 0 for value in values)


def test_an_interpolated_lag_has_the_bound_of_its_error() -> None:
    admin = small_cluster()
    admin.cannot_read = True
    admin.known_logs[T1] = FakeLog(50, [1_000, *[2_000] * 50, 3_000])
    admin.commits["orders"][T1] = 90
    samples = exported(admin, Style())
    at = {"group": "orders", "partition": "1"}
    lag_s = samples.of(f"{GROUP}lag_seconds", **at)
    error_s = samples.of(f"{GROUP}lag_seconds_error", **at)
    assert lag_s is not None
    assert error_s is not None
    assert abs(lag_s - (NOW_MS - 2_000) / 1_000) <= error_s
    method = {"group": "orders", "method": "interpolated"}
    assert samples.of(f"{GROUP}lag_seconds_partitions", **method) == 1


def test_kminion_names_have_its_labels() -> None:
    admin = small_cluster()
    admin.known_groups["orders"] = replace(
        admin.known_groups["orders"], protocol_type="consumer"
    )
    samples = exported(admin, Style(names=KMINION))
    prefix = "kminion_kafka_consumer_group_"
    lag = samples[f"{prefix}topic_partition_lag"]
    labels = {"group_id": "orders", "topic_name": "t", "partition_id": "0"}
    assert lag[frozenset(labels.items())] == 60
    topic = {"group_id": "orders", "topic_name": "t"}
    assert samples.of(f"{prefix}topic_lag", **topic) == 60
    assert samples.of(f"{prefix}topic_offset_sum", **topic) == 40
    assert samples.of(f"{prefix}info", group_id="orders", coordinator_id="1") == 1
    high = samples.of(
        "kminion_kafka_topic_partition_high_water_mark",
        topic_name="u",
        partition_id="0",
    )
    assert high == 10
    assert not [each for each in samples if each.startswith("kafka_")]


@pytest.mark.parametrize(
    ("granularity", "series"),
    [
        (Granularity.GROUP, (False, False)),
        (Granularity.TOPIC, (False, True)),
        (Granularity.PARTITION, (True, True)),
    ],
)
def test_the_granularity_limits_series(
    granularity: Granularity, series: tuple[bool, bool]
) -> None:
    samples = exported(small_cluster(), Style(granularity=granularity))
    assert (f"{GROUP}lag" in samples, f"{GROUP}topic_sum_lag" in samples) == series
    assert ("kafka_partition_latest_offset" in samples) == series[0]
    assert samples.of(f"{GROUP}sum_lag", group="orders") == 60


def test_members_are_labels_only_by_option() -> None:
    labels = {"group": "orders", "partition": "0"}
    owner = {"member_host": "/a", "consumer_id": "a-id", "client_id": "a"}
    samples = exported(small_cluster(), Style(with_member_labels=True))
    assert samples.of(f"{GROUP}lag", **labels, **owner) == 60
    plain = exported(small_cluster())
    assert not any("client_id" in dict(each) for each in plain[f"{GROUP}lag"])


def test_names_of_groups_and_topics_cannot_forge_lines() -> None:
    hostile = 'g"} 1\nforged{a="\\'
    admin = small_cluster()
    topic = TopicPartition('t"\n\\', 0)
    admin.known_logs[topic] = FakeLog.of(0, 10)
    admin.known_groups[hostile] = group(hostile, member('"\n', (topic.topic, 0)))
    admin.commits[hostile] = {topic: 4}
    for openmetrics in (False, True):
        samples = exported(
            admin, Style(with_member_labels=True), openmetrics=openmetrics
        )
        lag = samples.of(f"{GROUP}lag", group=hostile, topic=topic.topic)
        assert lag == 6
        assert "forged" not in samples


@pytest.mark.parametrize("names", NAMES.values())
def test_both_formats_have_the_same_samples(names: Names) -> None:
    plain = exported(small_cluster(), Style(names=names))
    openmetrics = exported(small_cluster(), Style(names=names), openmetrics=True)
    for each in (plain, openmetrics):
        del each[next(name for name in each if name.endswith("poll_time_ms"))]
    assert plain == openmetrics


def test_the_documentation_names_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text("utf-8")
    table = page.partition("## Consumer groups of any cluster")[2]
    for names in NAMES.values():
        for family in FAMILIES:
            name = names.of(family)
            short = re.sub(
                r"^(kafka_consumergroup|kminion_kafka_consumer)_group_", "_", name
            )
            poll_time = "poll_time_ms" in name
            assert f"`{name}`" in table or f"{short}`" in table or poll_time, name


@pytest.mark.parametrize("names", NAMES.values())
def test_no_two_metrics_have_one_name(names: Names) -> None:
    assert len({names.of(each) for each in FAMILIES}) == len(FAMILIES)
