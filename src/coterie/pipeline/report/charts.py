"""The charts of a report, declared with Altair and compiled to Vega here: the page has
Vega's runtime to draw them with.

Rules of this file: colours tell apart on light and on dark (3 to 1 on both, WCAG
1.4.11) and are never all that tells; texts come ready to be shown, as Vega's own would
be in the reader's time zone; every chart is as wide as its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import altair as alt
import vl_convert

Row: TypeAlias = dict[str, Any]
Spec: TypeAlias = dict[str, Any]
VERSION: Final = "6.1"
"""Of Vega-Lite, as Altair writes it."""
COLOURS: Final = (
    "#3b82f6",
    "#d97706",
    "#0d9488",
    "#db2777",
    "#8b5cf6",
    "#5c940d",
    "#e03131",
    "#748094",
    "#b45309",
    "#0e8a9e",
)
CAUSES: Final[Mapping[str, str]] = {
    "first": "#748094",
    "joined": "#5c940d",
    "left": "#d97706",
    "joined_and_left": "#b45309",
    "restarted": "#e03131",
    "subscription_changed": "#8b5cf6",
    "metadata_changed": "#3b82f6",
    "assignor_or_leader_changed": "#0e8a9e",
    "became_empty": "#db2777",
    "deleted": "#db2777",
    "upgraded": "#0d9488",
    "downgraded": "#0d9488",
    "unknown": "#748094",
}
_TIMES: Final = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "date": "%d %b",
    "day": "%d %b",
    "week": "%d %b",
    "month": "%b %Y",
    "quarter": "%b %Y",
    "year": "%Y",
}
_LANE: Final = 22
_HEIGHT: Final = 220
_LEGEND: Final = 95
_NAMES: Final = 120
"""The room for names beside an axis, in pixels."""


def runtime() -> str:
    """The script that draws: it leaves Vega's own embedder in `window.vegaEmbed`."""
    script: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=VERSION
    )
    return script


def compiled(chart: alt.Chart | alt.LayerChart, title: str, about: str) -> Spec:
    """A chart as Vega; `about` says to those who do not see it what it shows."""
    styled = (
        chart.properties(
            width="container",
            description=f"{title}. {about}",
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            background="transparent",
        )
        .configure_view(stroke=None)
        .configure_axis(labelLimit=_NAMES, titleFontWeight="normal", labelFontSize=12)
        .configure_legend(
            orient="bottom", columns=3, labelLimit=_LEGEND, labelFontSize=12, title=None
        )
    )
    spec: Spec = vl_convert.vegalite_to_vega(styled.to_dict(), vl_version=VERSION)
    return spec


def _time(field: str = "at") -> alt.X:
    return alt.X(
        f"{field}:T",
        title="UTC",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(format=_TIMES, tickCount=4, labelOverlap=True, labelBound=True),
    )


def _tips(**titles: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]


def _colour(field: str, names: Mapping[str, str] | None = None) -> alt.Color:
    if names is None:
        return alt.Color(f"{field}:N", scale=alt.Scale(range=list(COLOURS)))
    scale = alt.Scale(domain=list(names), range=list(names.values()))
    return alt.Color(f"{field}:N", scale=scale)


def rebalance_strip(ticks: Sequence[Row], storms: Sequence[Row]) -> Spec:
    """A lane a group, a tick a rebalance in the colour of its cause; storms shaded."""
    lane = alt.Y(
        "group:N", title=None, sort=alt.EncodingSortField("at", order="ascending")
    )
    shade = (
        alt.Chart(alt.InlineData(values=list(storms)))
        .mark_bar(color="#e03131", opacity=0.25, height=_LANE - 2)
        .encode(x=_time("from"), x2="until:T", y=lane, tooltip=_tips(storm="storm"))
    )
    seen = {each["cause"] for each in ticks}
    causes = {name: colour for name, colour in CAUSES.items() if name in seen}
    marks = (
        alt.Chart(alt.InlineData(values=list(ticks)))
        .mark_tick(thickness=3, size=_LANE - 8, opacity=1)
        .encode(
            x=_time(),
            y=alt.Y("group:N", title=None),
            color=_colour("cause", causes),
            tooltip=_tips(
                group="group",
                when="when (UTC)",
                cause="cause",
                epoch="epoch",
                members="members",
                joined="joined",
                left="left",
                moved="partitions moved",
                took="took",
            ),
        )
    )
    chart = (shade + marks).properties(height=alt.Step(_LANE))
    return compiled(chart, "Rebalances", "A lane for each group, over time.")


def ownership_lanes() -> Spec:
    """A lane a partition, a bar for each time that somebody owned it, and a line at
    the chosen time. Its rows come with the chosen group."""
    bars = (
        alt.Chart(alt.NamedData("owners"))
        .mark_bar(height=_LANE - 6)
        .encode(
            x=_time("from"),
            x2="until:T",
            y=alt.Y("part:N", title=None, sort="ascending"),
            color=_colour("owner"),
            tooltip=_tips(
                part="partition",
                owner="owner",
                member="member",
                host="host",
                since="from (UTC)",
                till="until (UTC)",
                end="ended by",
            ),
        )
    )
    line = (
        alt.Chart(alt.NamedData("now"))
        .mark_rule(strokeWidth=2, strokeDash=[4, 3])
        .encode(x="at:T")
    )
    chart = (bars + line).properties(height=alt.Step(_LANE))
    return compiled(chart, "Owners", "A lane for each partition, over time.")


def lag_line(field: str, title: str) -> Spec:
    """A line a topic, of the chosen group; points where it went back."""
    base = alt.Chart(alt.NamedData("lags"))
    lines = base.mark_line(
        point=alt.OverlayMarkDef(size=18, filled=True), interpolate="linear"
    ).encode(
        x=_time(),
        y=alt.Y(f"{field}:Q", title=title, axis=alt.Axis(format="~s", tickCount=5)),
        color=_colour("topic"),
        tooltip=_tips(topic="topic", when="when (UTC)", numbers="lag"),
    )
    back = (
        alt.Chart(alt.NamedData("resets"))
        .mark_rule(color="#e03131", strokeWidth=2)
        .encode(x="at:T", tooltip=_tips(topic="topic", when="when (UTC)", what="reset"))
    )
    chart = (lines + back).properties(height=_HEIGHT)
    return compiled(chart, title, "A line for each topic of the group, over time.")


def progress_lines() -> Spec:
    """Where each topic ended and where the chosen group was."""
    fold = (
        alt.Chart(alt.NamedData("lags"))
        .transform_fold(["end", "committed"], as_=["which", "offset"])
        .mark_line()
        .encode(
            x=_time(),
            y=alt.Y(
                "offset:Q",
                title="offsets, partitions added up",
                scale=alt.Scale(zero=False),
                axis=alt.Axis(format="~s", tickCount=5),
            ),
            color=_colour("topic"),
            strokeDash=alt.StrokeDash("which:N"),
            tooltip=_tips(topic="topic", when="when (UTC)", which="line"),
        )
        .properties(height=_HEIGHT)
    )
    return compiled(fold, "End and committed offset", "Two lines for each topic.")


def coordinator_skew(rows: Sequence[Row]) -> Spec:
    """A bar a partition of the log, as high as its commits."""
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar()
        .encode(
            x=alt.X(
                "partition:O",
                title="partition of the log",
                axis=alt.Axis(labelOverlap=True, labelAngle=0),
            ),
            y=alt.Y("rate:Q", title="commits a second"),
            color=_colour("broker"),
            tooltip=_tips(
                partition="partition of the log",
                broker="broker",
                groups="groups",
                rate="commits a second",
                top="commits most",
            ),
        )
        .properties(height=_HEIGHT)
    )
    return compiled(chart, "Coordinator skew", "A bar for each partition of the log.")


def usage_bars(rows: Sequence[Row]) -> Spec:
    """A bar a day, made of the groups that consumed most."""
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar()
        .encode(
            x=alt.X("day:O", title="day, UTC", axis=alt.Axis(labelOverlap=True)),
            y=alt.Y("consumed:Q", title="offsets consumed", axis=alt.Axis(format="~s")),
            color=_colour("group"),
            tooltip=_tips(
                group="group",
                day="day",
                consumed="offsets consumed",
                commits="commits",
                bytes="bytes of its commits",
            ),
        )
        .properties(height=_HEIGHT)
    )
    return compiled(chart, "Usage", "A bar for each day.")
