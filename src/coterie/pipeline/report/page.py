"""Render a lake as one self-contained page of HTML.

Names of groups, topics and clients are untrusted input. The template escapes every
text, and the page's content security policy allows only the script whose hash it lists,
and no requests. The script adds sorting, filtering and the slider of owners; the page
is complete without it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from coterie.pipeline.gold.groups.rebalances import StormRule
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.query import TableReader
from coterie.pipeline.report import (
    attention,
    charts,
    groups,
    lag_lines,
    owners,
    rebalances,
    sections,
    texts,
)
from coterie.pipeline.tables.all_tables import of_layer
from coterie.pipeline.tables.table import Layer

_TEMPLATES: Final = Path(__file__).parent / "templates"
GROUPS_MAX: Final = 300
"""Rows of the table of all groups."""
ATTENTION_MAX: Final = 40
"""Groups whose reasons are listed; the first of them without unfolding."""


def render(lake: Lake, made: datetime) -> str:
    """Return the page as HTML; `made` is its time of creation.

    Raises LogError when the lake cannot be read.
    """
    reader = TableReader(lake)
    content = _content(reader)
    script = _read_template("report.js")
    environment = _environment(reader.as_of)
    return environment.get_template("report.html.j2").render(
        **content,
        identity=lake.identity,
        version=lake.version,
        made=made,
        program=version("coterie"),
        policy=_security_policy(script),
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(_read_template("report.css")),  # noqa: S704
        gold=of_layer(Layer.GOLD),
        missing=sorted(reader.missing),
        kinds=rebalances.KINDS,
        storm_rule=StormRule(),
    )


def _content(reader: TableReader) -> dict[str, Any]:
    """Return the values of the template, section by section."""
    now = reader.as_of
    by_id = groups.existing_groups(reader)
    lags = groups.newest_lags(reader)
    groups.add_lags(by_id, lags)
    events = rebalances.read_rebalances(reader)
    expiring = sections.expiring_offsets(reader, by_id)
    expiries = sections.soon_expiring(expiring)
    storms = {
        group: storm
        for group, storm in events.recent_storms(now).items()
        if group in by_id
    }
    listed = attention.add_attention(by_id, expiries, storms, now)
    troubled = [group for group in listed if group.is_troubled]
    stale, stale_total = sections.stale_groups(reader, by_id)
    topics = sections.topics_of(by_id, lags)
    axis, lanes = rebalances.rebalance_lanes(events, now)
    load, busiest = sections.coordinator_load(reader)
    return {
        "tiles": sections.tiles(listed, storms, expiries, stale_total),
        "quality": sections.data_quality(reader),
        "sampled": max((row["sample_ts"] for row in lags), default=None),
        "gone": groups.gone_groups(reader, by_id),
        "groups": listed[:GROUPS_MAX],
        "groups_total": len(listed),
        "troubled": troubled[:ATTENTION_MAX],
        "troubled_total": len(troubled),
        "existing": by_id.keys(),
        "rebalances": events,
        "rebalance_axis": axis,
        "rebalance_lanes": lanes,
        "rebalance_rows": rebalances.rebalance_table(events),
        "owner_charts": owners.owner_charts(reader, by_id, events),
        "expiring": expiring,
        "stale": stale,
        "stale_total": stale_total,
        "topics": topics,
        "load": load,
        "busiest": busiest,
        "usage": sections.daily_usage(reader, by_id),
        **_lag(reader, listed, troubled[:ATTENTION_MAX]),
    }


@dataclass(frozen=True)
class _GroupLag:
    """A group with its charts of lag."""

    group: groups.GroupRow
    charts: list[charts.LineChart]
    topics: int
    rewinds: list[lag_lines.Rewind] = field(default_factory=list)


def _lag(
    reader: TableReader,
    listed: list[groups.GroupRow],
    troubled: list[groups.GroupRow],
) -> dict[str, Any]:
    """Return the trends of groups in trouble, and the charts of the first groups."""
    measured = [group for group in listed if group.lag is not None]
    drawn = measured[: lag_lines.CHARTS_MAX]
    wanted = {group.group_id for group in (*drawn, *troubled)}
    series = lag_lines.lag_series(reader, wanted)
    moved_back = lag_lines.rewinds(reader, [group.group_id for group in drawn])
    trends = {name: lag_lines.trend(found) for name, found in series.items()}
    lags = [
        _GroupLag(
            group,
            lag_lines.lag_charts(found, moved_back.get(group.group_id, ())),
            len(found),
            moved_back.get(group.group_id, []),
        )
        for group in drawn
        if (found := series.get(group.group_id))
    ]
    return {
        "trends": trends,
        "lag_groups": lags,
        "lag_total": len(measured),
        "lag_lines_max": lag_lines.LINES_MAX,
    }


def _security_policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}';"
        " style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def _read_template(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _environment(now: datetime) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {
        "ago": partial(texts.ago, now=now),
        "short_number": charts.short_number,
    }
    environment.filters.update(filters)
    for each in (
        texts.moment,
        texts.span,
        texts.count,
        texts.decimal,
        texts.visible,
        texts.plural,
        texts.short_name,
    ):
        environment.filters[each.__name__] = each
    return environment
