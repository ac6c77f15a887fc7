"""One page of HTML about a lake: no server, no network, nothing beside the file.

Rules of this file: names of groups, topics and clients are hostile input. The template
escapes every text; data for scripts is JSON in which no tag can end; and the page's own
policy runs no script but those whose hashes it names.
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
from coterie.pipeline.report import charts, groups, lists, texts, timeline
from coterie.pipeline.report.facts import Facts
from coterie.pipeline.report.tiles import tiles
from coterie.pipeline.tables.all_tables import of_layer
from coterie.pipeline.tables.table import Layer

_TEMPLATES: Final = Path(__file__).parent / "templates"


def render(lake: Lake, made: datetime) -> str:
    """The page, made at a time. Raises LogError for a lake that cannot be read."""
    facts = Facts(lake)
    blocks = {**_lists(facts), **_charts(facts)}
    scripts = [charts.runtime(), _template("report.js")]
    page = _environment().get_template("report.html.j2")
    return page.render(
        **blocks,
        identity=lake.identity,
        version=lake.version,
        made=made,
        program=version("coterie"),
        policy=policy(scripts),
        scripts=[Markup(each) for each in scripts],  # noqa: S704 - our own files
        style=Markup(_template("report.css")),  # noqa: S704
        gold=of_layer(Layer.GOLD),
        missing=sorted(facts.missing),
        most={
            "groups": groups.GROUPS_MAX,
            "topics": groups.TOPICS_MAX,
            "rows": lists.LIST_MAX,
            "lanes": timeline.LANES_MAX,
            "choices": timeline.CHOICES_MAX,
            "users": lists.USERS_MAX,
        },
    )


def policy(scripts: Sequence[str]) -> str:
    """What the page may do: run these scripts, and fetch nothing."""
    hashes = (hashlib.sha256(each.encode()).digest() for each in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed};"
        " style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def json_for_page(value: Any) -> Markup:
    """JSON that no reader of HTML finds a tag or a comment in."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for each in "<>&":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return Markup(text)  # noqa: S704 - made safe just now


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (texts.moment, texts.span, texts.count, texts.share, texts.seen):
        made.filters[each.__name__] = each
    made.filters["decimal"] = texts.decimal
    return made


def _lists(facts: Facts) -> dict[str, Any]:
    """What the template shows as tables."""
    lags = groups.newest_lags(facts)
    everyone = groups.all_groups(facts, lags)
    worst = everyone[: groups.GROUPS_MAX]
    groups.add_trends(facts, worst)
    topics = groups.topics_of(everyone, lags)
    expiring, expiring_found = lists.expiring(facts)
    stale, stale_found = lists.stale(facts)
    return {
        "tiles": tiles(facts, everyone, stale_found),
        "quality": lists.quality(facts),
        "worst": worst,
        "groups_found": len(everyone),
        "topics": topics[: groups.TOPICS_MAX],
        "topics_found": len(topics),
        "expiring": expiring,
        "expiring_found": expiring_found,
        "stale": stale,
        "stale_found": stale_found,
        "ranked": [each.group_id for each in everyone],
    }


def _charts(facts: Facts) -> dict[str, Any]:
    """The charts that have rows, and the rows of those that show a chosen group."""
    ticks, found = timeline.rebalances(facts)
    owners = timeline.owners(facts, _choices(facts, "partition_ownership_history"))
    lags = timeline.lag_lines(facts, _choices(facts, "lag_history"))
    back = timeline.resets(facts, list(lags))
    load, usage = lists.load(facts), lists.usage(facts)
    drawn = {
        "rebalances": ticks and charts.rebalance_strip(ticks, timeline.storms(ticks)),
        "owners": owners and charts.ownership_lanes(),
        "lag": lags and charts.lag_line("lag", "records to read"),
        "late": lags and charts.lag_line("late", "seconds behind"),
        "progress": lags and charts.progress_lines(),
        "load": load and charts.coordinator_skew(load),
        "usage": usage and charts.usage_bars(usage),
    }
    specs = {name: spec for name, spec in drawn.items() if spec}
    data = {
        "specs": specs,
        "owners": list(owners.values()),
        "lags": list(lags.values()),
        "resets": [back[group] for group in lags],
    }
    return {
        "ticks": ticks,
        "rebalances_found": found,
        "drawn": set(specs),
        "data": json_for_page(data),
        "owner_groups": list(owners),
        "lag_groups": list(lags),
    }


def _choices(facts: Facts, table: str) -> list[str]:
    """The groups of a table that have most rows: those that a chart can show."""
    times = {"lag_history": "sample_ts", "partition_ownership_history": "valid_from"}
    rows = facts.table(table, ("group_id",), facts.recent(table, times[table]))
    counted = rows.group_by("group_id").aggregate([([], "count_all")])
    order = [("count_all", "descending"), ("group_id", "ascending")]
    groups_found: list[str] = counted.sort_by(order)["group_id"].to_pylist()
    return groups_found[: timeline.CHOICES_MAX]
