"""The dashboard and the alert rules: valid, and about metrics that are exported.

promtool checks their expressions where it is installed (Debian: prometheus).
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from coterie.errors import ConnectionLost
from coterie.operations.exporter.exposition import Style
from coterie.operations.exporter.poll import Poller
from coterie.operations.exporter.service import Exporter
from coterie.types import TopicPartition
from tests.operations.exporter.exported import (
    ExportedAdmin,
    Samples,
    options,
    small_cluster,
)
from tests.operations.fake_admin import FakeLog

MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"
RULES = MONITORING / "alert-rules.yaml"
METRIC = re.compile(r"\b(?:kafka|coterie|kminion|process)_\w+")
LABEL_LISTS = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to every series of a target."""


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (MONITORING / "grafana-dashboard.json").read_text("utf-8")
    )
    return content


def panels() -> list[dict[str, Any]]:
    return [each for each in dashboard()["panels"] if each["type"] != "row"]


def expressions() -> Iterator[str]:
    """Yield the expressions of alerts, panels and variables."""
    yield from (each["expr"] for each in rules())
    yield from (target["expr"] for each in panels() for target in each["targets"])
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(
                r"label_values\((.*), \w+\)", r"\1", variable["query"]["query"]
            )


def make_cluster() -> ExportedAdmin:
    """Return a cluster with every kind of group that has a metric of its own."""
    admin = small_cluster()
    orders = admin.known_groups["orders"]
    admin.known_groups["orders"] = replace(orders, group_epoch=2, assignment_epoch=2)
    admin.known_groups["billing"] = replace(
        admin.known_groups["billing"], generation_id=4
    )
    return admin


@pytest.fixture(scope="module")
def exported() -> Samples:
    """Return what an exporter has exported after two polls and in an outage."""
    admin = make_cluster()
    times = iter((100_000, 100_000, 130_000, 130_000))
    poller = Poller(admin, options(), now_ms=lambda: next(times))
    exporter = Exporter(Style(), interval_s=30)
    at = TopicPartition("t", 1)
    admin.commits["orders"][at] = 85
    assert asyncio.run(exporter.poll(poller))
    admin.cannot_read = True  # ages are interpolated
    admin.known_logs[at] = FakeLog(50, [1_000, *[2_000] * 38, 3_000])
    assert asyncio.run(exporter.poll(poller))
    admin.outage = ConnectionLost("down")
    assert not asyncio.run(exporter.poll(poller))
    return Samples.read(b"".join(exporter.body().parts()))


def test_every_metric_is_exported(exported: Samples) -> None:
    used = {name for each in expressions() for name in METRIC.findall(each)}
    assert len(used) > 15
    assert used - exported.keys() == set()


def test_every_label_is_one_of_its_metric(exported: Samples) -> None:
    labels = {
        name: {label for series in exported[name] for label, _ in series}
        for name in exported
    }
    everything = {each for names in labels.values() for each in names} | OF_PROMETHEUS
    for expression in expressions():
        for found in re.finditer(rf"({METRIC.pattern})\{{([^{{}}]*)\}}", expression):
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", found[2]))
            assert used <= labels[found[1]], found[0]
        for names in LABEL_LISTS.findall(expression):
            assert set(re.split(r",\s*", names)) <= everything, expression


def test_alerts_have_a_severity_and_texts() -> None:
    names = [each["alert"] for each in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_every_alert_has_a_test_that_expects_it() -> None:
    content = yaml.safe_load((MONITORING / "alert-rules-test.yaml").read_text("utf-8"))
    expected = {
        case["alertname"]
        for test in content["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert expected == {each["alert"] for each in rules()}


def test_panels_are_complete_and_do_not_overlap() -> None:
    every = dashboard()["panels"]
    ids = [each["id"] for each in every]
    assert len(ids) == len(set(ids))
    cells: set[tuple[int, int]] = set()
    for each in every:
        at = each["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & own, each["title"]
        cells |= own
    for each in panels():
        assert each["targets"], each["title"]
        assert each["datasource"]["uid"] == "${datasource}"
        refs = [target["refId"] for target in each["targets"]]
        assert len(refs) == len(set(refs))


def test_variables_of_expressions_are_declared() -> None:
    declared = {each["name"] for each in dashboard()["templating"]["list"]}
    used = {name for each in expressions() for name in re.findall(r"\$(\w+)", each)}
    assert used <= declared


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_promtool_accepts_the_rules_and_their_tests_pass(promtool: str) -> None:
    run(promtool, "check", "rules", str(RULES))
    run(promtool, "test", "rules", str(MONITORING / "alert-rules-test.yaml"))


def test_promtool_accepts_the_expressions_of_the_dashboard(
    promtool: str, tmp_path: Path
) -> None:
    found = []
    for number, expression in enumerate(expressions()):
        every = re.sub(r"\$\w+", ".*", expression)
        found.append({"record": f"panel:{number}", "expr": every})
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}))
    run(promtool, "check", "rules", str(file))


def test_promtool_accepts_the_exported_text(promtool: str) -> None:
    exporter = Exporter(Style(), interval_s=30)
    assert asyncio.run(exporter.poll(Poller(make_cluster(), options())))
    text = b"".join(exporter.body().parts())
    # Names like ..._total_ms are those of other exporters; only syntax is checked.
    done = subprocess.run(
        [promtool, "check", "metrics"],
        check=False,
        capture_output=True,
        input=text,
        timeout=120,
    )
    assert done.returncode in {0, 3}, done.stderr.decode()
    assert b"error while linting" not in done.stderr
