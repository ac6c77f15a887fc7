"""Render a lake as one self-contained page of HTML.

Names of groups, topics and clients are untrusted input. The template escapes every
text; data for scripts is JSON that cannot contain a tag; and the page's content
security policy allows only the scripts whose hashes it lists, and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.query import TableReader
from coterie.pipeline.report import charts, sections, texts, timeline
from coterie.pipeline.tables.all_tables import of_layer
from coterie.pipeline.tables.table import Layer

_TEMPLATES: Final = Path(__file__).parent / "templates"


def render(lake: Lake, made: datetime) -> str:
    """Return the page as HTML; `made` is its time of creation.

    Raises LogError when the lake cannot be read.
    """
    reader = TableReader(lake)
    content = {**_tables(reader), **_charts(reader)}
    scripts = [charts.vega_runtime(), _read_template("report.js")]
    page = _environment().get_template("report.html.j2")
    return page.render(
        **content,
        identity=lake.identity,
        version=lake.version,
        made=made,
        program=version("coterie"),
        policy=_security_policy(scripts),
        scripts=[Markup(each) for each in scripts],  # noqa: S704 - our own files
        style=Markup(_read_template("report.css")),  # noqa: S704
        gold=of_layer(Layer.GOLD),
        missing=sorted(reader.missing),
        limits={
            "lanes": timeline.LANES_MAX,
            "choices": timeline.CHOICES_MAX,
            "users": sections.USERS_MAX,
        },
    )


def _tables(reader: TableReader) -> dict[str, Any]:
    """Return the values of the template's tables, lists and key figures."""
    lags = sections.newest_lags(reader)
    groups = sections.all_groups(reader, lags)
    worst = groups[: sections.GROUPS_MAX]
    sections.add_trends(reader, worst)
    topics = sections.topics_of(groups, lags)
    expiring, expiring_total = sections.expiring_offsets(reader)
    stale, stale_total = sections.stale_groups(reader)
    return {
        "tiles": sections.tiles(reader, groups, stale_total),
        "quality": sections.data_quality(reader),
        "worst": worst,
        "groups_total": len(groups),
        "topics": topics[: sections.TOPICS_MAX],
        "topics_total": len(topics),
        "expiring": expiring,
        "expiring_total": expiring_total,
        "stale": stale,
        "stale_total": stale_total,
    }


def _charts(reader: TableReader) -> dict[str, Any]:
    """Return the charts that have rows, and the rows of charts of one group."""
    ticks, rebalances_total = timeline.rebalances(reader)
    owner_groups = timeline.largest_groups(
        reader, "partition_ownership_history", "valid_from"
    )
    owners = timeline.owners(reader, owner_groups)
    lag_groups = timeline.largest_groups(reader, "lag_history", "sample_ts")
    lags = timeline.lag_lines(reader, lag_groups)
    rewinds = timeline.rewinds(reader, list(lags))
    compile_chart = charts.compile_chart
    specs: dict[str, charts.Spec] = {}
    if ticks:
        storms = timeline.storms(ticks)
        specs["rebalances"] = compile_chart(
            charts.REBALANCES, ticks=ticks, storms=storms
        )
    if owners:
        specs["owners"] = compile_chart(charts.OWNERSHIP)
    if lags:
        specs["lag"] = compile_chart(charts.LAG)
        specs["late"] = compile_chart(charts.TIME_LAG)
        specs["progress"] = compile_chart(charts.PROGRESS)
    if load := sections.coordinator_load(reader):
        specs["load"] = compile_chart(charts.COORDINATOR_LOAD, load=load)
    if usage := sections.daily_usage(reader):
        specs["usage"] = compile_chart(charts.USAGE, usage=usage)
    data = {
        "specs": specs,
        "owners": list(owners.values()),
        "lags": list(lags.values()),
        "resets": [rewinds[group] for group in lags],
    }
    return {
        "ticks": ticks,
        "rebalances_total": rebalances_total,
        "drawn": set(specs),
        "data": json_for_page(data),
        "owner_groups": list(owners),
        "lag_groups": list(lags),
    }


def json_for_page(value: Any) -> Markup:
    """Return JSON without characters that could start a tag or a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for each in "<>&":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def _security_policy(scripts: Sequence[str]) -> str:
    hashes = (hashlib.sha256(each.encode()).digest() for each in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed};"
        " style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def _read_template(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (texts.moment, texts.span, texts.count, texts.decimal, texts.visible):
        environment.filters[each.__name__] = each
    return environment
