"""The charts of a report, declared as data and compiled to Vega.

The page contains Vega's runtime, which draws the compiled charts. Rules: colours have a
contrast of at least 3 to 1 on a light and a dark background (WCAG 1.4.11) and never
carry information alone; texts are formatted here, because Vega would format times in
the reader's time zone; every chart fills the width of its container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import altair as alt
import vl_convert

Row: TypeAlias = dict[str, Any]
Spec: TypeAlias = dict[str, Any]
_VEGA_LITE_VERSION: Final = "6.1"
"""The version of Vega-Lite that Altair writes."""
_COLOURS: Final = [
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
]
_RED: Final = "#e03131"
_CAUSE_COLOURS: Final[Mapping[str, str]] = {
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
_TIME_FORMATS: Final = {
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
# Sizes in pixels.
_LANE: Final = 22
_HEIGHT: Final = 220
_LEGEND_LABEL: Final = 95
_AXIS_LABEL: Final = 120


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The marks for the rows of one data source, as Vega-Lite defines them."""

    rows: str
    """The name of the data source. Without rows at compile time the page supplies
    them."""
    mark: str
    style: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, Any]
    tips: str = ""
    """The fields of the tooltip as "field: title", or "field" when both are equal."""
    colour: str = ""
    """The field that selects the colour."""
    palette: Mapping[str, str] | None = None
    """The colours of the field's values; None for colours in order."""
    fold: tuple[str, ...] = ()
    """Fields that become rows with the fields `line` and `offset`."""


@dataclass(frozen=True, kw_only=True)
class ChartDeclaration:
    """A chart: its title, a description for screen readers, and its layers."""

    title: str
    about: str
    layers: tuple[Layer, ...]
    height: Any = _HEIGHT


def _time(field_name: str = "at") -> alt.X:
    return alt.X(
        f"{field_name}:T",
        title="UTC",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(
            format=_TIME_FORMATS, tickCount=4, labelOverlap=True, labelBound=True
        ),
    )


def _quantity(field_name: str, title: str, **options: Any) -> alt.Y:
    axis = alt.Axis(format="~s", tickCount=5)
    return alt.Y(f"{field_name}:Q", title=title, axis=axis, **options)


REBALANCES: Final = ChartDeclaration(
    title="Rebalances",
    about="A lane for each group, over time.",
    height=alt.Step(_LANE),
    layers=(
        Layer(
            rows="storms",
            mark="bar",
            style={"color": _RED, "opacity": 0.25, "height": _LANE - 2},
            channels={
                "x": _time("from"),
                "x2": "until:T",
                "y": alt.Y(
                    "group:N",
                    title=None,
                    sort=alt.EncodingSortField("at", order="ascending"),
                ),
            },
            tips="storm",
        ),
        Layer(
            rows="ticks",
            mark="tick",
            style={"thickness": 3, "size": _LANE - 8, "opacity": 1},
            channels={"x": _time(), "y": alt.Y("group:N", title=None)},
            colour="cause",
            palette=_CAUSE_COLOURS,
            tips=(
                "group, when: when (UTC), cause, epoch, members, joined, left, moved: "
                "partitions moved, took"
            ),
        ),
    ),
)

# The page supplies the rows of the selected group, and the selected time as `now`.
OWNERSHIP: Final = ChartDeclaration(
    title="Owners",
    about="A lane for each partition, over time.",
    height=alt.Step(_LANE),
    layers=(
        Layer(
            rows="owners",
            mark="bar",
            style={"height": _LANE - 6},
            channels={
                "x": _time("from"),
                "x2": "until:T",
                "y": alt.Y("part:N", title=None, sort="ascending"),
            },
            colour="owner",
            tips=(
                "part: partition, owner, member, host, since: from (UTC), till: until "
                "(UTC), end: ended by"
            ),
        ),
        Layer(
            rows="now",
            mark="rule",
            style={"strokeWidth": 2, "strokeDash": [4, 3]},
            channels={"x": "at:T"},
        ),
    ),
)


def _lag_chart(field_name: str, title: str) -> ChartDeclaration:
    return ChartDeclaration(
        title=title,
        about="A line for each topic of the group, over time.",
        layers=(
            Layer(
                rows="lags",
                mark="line",
                style={
                    "point": alt.OverlayMarkDef(size=18, filled=True),
                    "interpolate": "linear",
                },
                channels={"x": _time(), "y": _quantity(field_name, title)},
                colour="topic",
                tips="topic, when: when (UTC), numbers: lag",
            ),
            Layer(
                rows="resets",
                mark="rule",
                style={"color": _RED, "strokeWidth": 2},
                channels={"x": "at:T"},
                tips="topic, when: when (UTC), what: reset",
            ),
        ),
    )


LAG: Final = _lag_chart("lag", "records behind")
TIME_LAG: Final = _lag_chart("late", "seconds behind")
PROGRESS: Final = ChartDeclaration(
    title="End and committed offset",
    about="Two lines for each topic.",
    layers=(
        Layer(
            rows="lags",
            mark="line",
            fold=("end", "committed"),
            channels={
                "x": _time(),
                "y": _quantity(
                    "offset",
                    "sum of the partitions' offsets",
                    scale=alt.Scale(zero=False),
                ),
                "strokeDash": alt.StrokeDash("line:N"),
            },
            colour="topic",
            tips="topic, when: when (UTC), line",
        ),
    ),
)
COORDINATOR_LOAD: Final = ChartDeclaration(
    title="Coordinator load",
    about="A bar for each partition of the log.",
    layers=(
        Layer(
            rows="load",
            mark="bar",
            channels={
                "x": alt.X(
                    "partition:O",
                    title="partition of the log",
                    axis=alt.Axis(labelOverlap=True, labelAngle=0),
                ),
                "y": alt.Y("rate:Q", title="commits per second"),
            },
            colour="broker",
            tips=(
                "partition: partition of the log, broker, groups, rate: commits per "
                "second, top: group with most commits"
            ),
        ),
    ),
)
USAGE: Final = ChartDeclaration(
    title="Usage",
    about="A bar for each day.",
    layers=(
        Layer(
            rows="usage",
            mark="bar",
            channels={
                "x": alt.X("day:O", title="day, UTC", axis=alt.Axis(labelOverlap=True)),
                "y": alt.Y(
                    "consumed:Q", title="offsets consumed", axis=alt.Axis(format="~s")
                ),
            },
            colour="group",
            tips=(
                "group, day, consumed: offsets consumed, commits, bytes: bytes of its "
                "commits"
            ),
        ),
    ),
)


def vega_runtime() -> str:
    """Return the script that draws charts; it sets `window.vegaEmbed`."""
    script: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=_VEGA_LITE_VERSION
    )
    return script


def compile_chart(declaration: ChartDeclaration, **rows: Sequence[Row]) -> Spec:
    """Compile a chart to Vega, with the rows of its data sources by name."""
    layers = [_layer_chart(layer, rows.get(layer.rows)) for layer in declaration.layers]
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    styled = (
        chart.properties(
            width="container",
            height=declaration.height,
            description=f"{declaration.title}. {declaration.about}",
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            background="transparent",
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelLimit=_AXIS_LABEL, titleFontWeight="normal", labelFontSize=12
        )
        .configure_legend(
            orient="bottom",
            columns=3,
            labelLimit=_LEGEND_LABEL,
            labelFontSize=12,
            title=None,
        )
    )
    spec: Spec = vl_convert.vegalite_to_vega(
        styled.to_dict(), vl_version=_VEGA_LITE_VERSION
    )
    return spec


def _layer_chart(layer: Layer, rows: Sequence[Row] | None) -> alt.Chart:
    data = (
        alt.NamedData(layer.rows) if rows is None else alt.InlineData(values=list(rows))
    )
    channels = dict(layer.channels)
    if layer.colour:
        scale = alt.Scale(range=_COLOURS)
        if layer.palette is not None:
            # The legend shows only the values that the rows have.
            present = {row[layer.colour] for row in rows or ()}
            colours = {k: v for k, v in layer.palette.items() if k in present}
            scale = alt.Scale(domain=list(colours), range=list(colours.values()))
        channels["color"] = alt.Color(f"{layer.colour}:N", scale=scale)
    if layer.tips:
        tips = [each.partition(": ") for each in layer.tips.split(", ")]
        channels["tooltip"] = [
            alt.Tooltip(f"{name}:N", title=title or name) for name, _, title in tips
        ]
    chart = alt.Chart(data)
    if layer.fold:
        chart = chart.transform_fold(list(layer.fold), as_=["line", "offset"])
    marked: alt.Chart = getattr(chart, f"mark_{layer.mark}")(**layer.style)
    return marked.encode(**channels)
