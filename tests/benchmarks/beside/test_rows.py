"""Every part of the comparison, with a second server of Coterie in Kafka's place.

The loads check each response; the figures themselves are not asserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.beside import forming, growth, records, requests, servers
from benchmarks.beside.servers import KAFKA, Servers, coterie
from benchmarks.harness.figures import Figure, Rounds, Skipped
from benchmarks.harness.load import build_generator
from benchmarks.harness.table import PURE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SHORT = Rounds(1, 0.1)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Servers, Path]]:
    home = tmp_path_factory.mktemp("servers")
    try:
        build_generator()
        with coterie(PURE, home) as ours, coterie(PURE, home, "other") as other:
            yield {KAFKA: other, PURE: ours}, home
    except Skipped as reason:
        pytest.skip(str(reason))


def names(figures: Iterator[Figure]) -> list[str]:
    measured = list(figures)
    assert [each.detail for each in measured if each.unit == "failure"] == []
    assert {each.build for each in measured} == {PURE}
    assert all(each.value > 0 for each in measured)
    return [each.name for each in measured]


def test_commits_and_fetches_are_measured_beside_kafka_and_the_bare_disk(
    both: tuple[Servers, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "KAFKA_WARM_UP_S", 0.1)
    monkeypatch.setattr(requests, "OUR_WARM_UP_S", 0.1)
    only = SHORT._replace(rows="commits of 10, 50|commit of 10, 1|^fetches")
    assert names(requests.measure_rows(requests.ROWS, *both, only)) == [
        "commits of 10, 50 connections: of Kafka",
        "commits of 10, 50 connections: server CPU",
        "commit of 10, 1 connection, p50: of Kafka",
        "commit of 10, 1 connection, p50: of a write + fdatasync",
        "fetches of 3 groups x 50 offsets, 50 connections: of Kafka",
        "fetches of 3 groups x 50 offsets, each fourth request a commit: of Kafka",
    ]


def test_records_are_produced_and_consumed(
    both: tuple[Servers, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RECORDS_PER_S", 10_000)
    monkeypatch.setattr(records, "WARM_UP_ROUNDS", 1)
    assert names(records.measure(both[0], SHORT)) == [
        "produce records of 200 bytes, librdkafka: of Kafka",
        "consume records of 200 bytes, librdkafka: of Kafka",
    ]


def test_groups_form_on_both_servers(
    both: tuple[Servers, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forming, "MEMBERS", 20)
    assert names(forming.measure(both[0], SHORT)) == [
        "KIP-848 group of 20 forms, time: of Kafka",
        "KIP-848 group of 20 forms, server CPU: of Kafka",
        "classic group of 20 forms, time: of Kafka",
        "classic group of 20 forms, server CPU: of Kafka",
    ]


def test_large_groups_state_the_cpu_time_of_the_server(
    both: tuple[Servers, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forming, "BIG_GROUPS", {30: {PURE: 3.0}})
    assert names(forming.measure_big_groups(both[0], SHORT)) == [
        "KIP-848 group of 30 forms: server CPU"
    ]


def test_growth_is_measured_for_topics_members_and_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MANY_TOPICS", "MANY_MEMBERS", "GROUPS", "OFFSETS_PER_GROUP"):
        monkeypatch.setattr(growth, name, 5)
    monkeypatch.setattr(growth, "builds", lambda: {PURE: {}})
    monkeypatch.setattr(servers, "builds", lambda: {PURE: {}})
    assert len(names(growth.measure(SHORT))) == 3


def test_rows_that_are_not_selected_cost_nothing() -> None:
    none = SHORT._replace(rows="no such row")
    assert list(records.measure({}, none)) == []
    assert list(forming.measure({}, none)) == []
    assert list(forming.measure_big_groups({}, none)) == []
    assert list(growth.measure(none)) == []
