"""Positions, scales and colours of charts."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from coterie.pipeline.report import charts, page
from coterie.pipeline.report.charts import TimeAxis

_HOUR: Final = 3_600_000
_CSS: Final = Path(page.__file__).parent / "templates" / "report.css"


def test_times_outside_of_an_axis_are_at_its_edges() -> None:
    axis = TimeAxis(1_000, 2_000)
    assert [axis.at(ms) for ms in (0, 1_000, 1_250, 2_000, 9_000)] == [
        0,
        0,
        25,
        100,
        100,
    ]
    assert TimeAxis(5, 5).at(5) == 0


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        (4_000, ["00:00:00", "00:00:01"]),
        (_HOUR, ["01 Jan", "00:15", "00:30", "00:45", "01:00"]),
        (10 * _HOUR, ["01 Jan", "03:00", "06:00", "09:00"]),
        (72 * _HOUR, ["01 Jan", "02 Jan", "03 Jan", "04 Jan"]),
    ],
)
def test_ticks_are_at_round_times(length: int, texts: list[str]) -> None:
    start = 1_767_225_600_000  # 2026-01-01
    found = [tick.text for tick in TimeAxis(start, start + length).ticks]
    if length < 60_000:
        assert len(found) == 5
        assert found[1] == texts[1]
    else:
        assert found == texts


@pytest.mark.parametrize("length", [1, 999, 61_000, 5 * _HOUR, 900 * _HOUR, 10**13])
@pytest.mark.parametrize("start", [0, 1_767_225_600_123])
def test_ticks_are_few_and_far_apart(start: int, length: int) -> None:
    ticks = TimeAxis(start, start + length).ticks
    assert len(ticks) <= 5
    places = [tick.at for tick in ticks]
    assert all(b - a >= 20 for a, b in pairwise(places))


def test_labels_near_an_edge_are_aligned_with_it() -> None:
    assert [charts.Tick(at, "").align for at in (0, 50, 100)] == [
        "left",
        "middle",
        "right",
    ]


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (0, 1),
        (1, 1),
        (7, 8),
        (9, 10),
        (11, 12),
        (13, 15),
        (100, 100),
        (4_321, 5_000),
        (0.03, 0.03),
    ],
)
def test_the_end_of_an_axis_is_a_round_number(value: float, bound: float) -> None:
    assert charts.nice_bound(value) == pytest.approx(bound)


def test_an_axis_of_durations_has_one_unit() -> None:
    assert charts.time_scale(6_900_000) == (7_200_000, ("120 min", "60 min", "0"))
    assert charts.time_scale(0) == (1, ("1 ms", "0.5 ms", "0"))
    assert charts.time_scale(90_000) == (100_000, ("100 s", "50 s", "0"))


def test_numbers_of_an_axis_are_short() -> None:
    found = [charts.short_number(each) for each in (0, 0.5, 999, 1_500, 2e7, 3e9)]
    assert found == ["0", "0.5", "999", "1.5\u202fk", "20\u202fM", "3\u202fG"]


def test_an_unknown_value_interrupts_a_line() -> None:
    axis = TimeAxis(0, 100)
    points = [(0, 0.0), (25, 10.0), (50, None), (100, 5.0)]
    assert charts.line_points(axis, points, 0, 10) == (
        "0,100.0 25,0.0",
        "100,50.0 100,50.0",
    )


# Colours. Simulation of colour blindness: Machado, Oliveira and Fernandes (2009),
# severity 1. Distance: Euclidean in OKLab, times 100; 2 is just noticeable.

_VISIONS: Final = {
    "trichromat": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
_DISTINCT: Final = 12.0
Colour = NDArray[np.float64]


def _themes() -> dict[str, dict[str, Colour]]:
    """Return the colours of each theme of the page, linear."""
    light, *dark = re.findall(r"--paper:[^}]*", _CSS.read_text("utf-8"))
    assert len(dark) == 2
    found = []
    for text in (light, *dark):
        pairs = re.findall(r"--([\w-]+): #([0-9a-f]{6})", text)
        found.append({name: _linear(colour) for name, colour in pairs})
    assert str(found[1]) == str(found[2]), (
        "the two definitions of the dark theme differ"
    )
    return {"light": found[0], "dark": found[1]}


def _linear(colour: str) -> Colour:
    parts = np.array([int(colour[at : at + 2], 16) for at in (0, 2, 4)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _oklab(linear: Colour) -> Colour:
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    found: Colour = opponents @ np.cbrt(cones @ np.clip(linear, 0, 1)) * 100
    return found


def _contrast(one: Colour, other: Colour) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted((float(weights @ one), float(weights @ other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("vision", _VISIONS)
def test_colours_are_distinct_for_every_vision(theme: str, vision: str) -> None:
    colours = _themes()[theme]
    matrix = np.array(_VISIONS[vision])
    seen = {
        f"c{at}": _oklab(matrix @ colours[f"c{at}"]) for at in range(charts.COLOURS)
    }
    for one, other in combinations(seen, 2):
        distance = float(np.linalg.norm(seen[one] - seen[other]))
        assert distance >= _DISTINCT, (one, other, distance)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_and_texts_have_the_contrast_of_wcag(theme: str) -> None:
    """Marks need 3 to 1 (1.4.11), texts 4.5 to 1 (1.4.3)."""
    colours = _themes()[theme]
    papers = [colours["paper"], colours["panel"]]
    for paper in papers:
        for at in range(charts.COLOURS):
            assert _contrast(colours[f"c{at}"], paper) >= 3, at
        for name in ("ink", "soft", "accent", "bad", "warn", "ok"):
            assert _contrast(colours[name], paper) >= 4.5, name
    for name in ("bad", "warn", "ok"):
        assert _contrast(colours[name], colours[f"{name}-back"]) >= 4.5, name
