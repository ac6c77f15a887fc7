"""The scenarios of this folder, and all lines that they may have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.scenarios import (
    admin_lines,
    classic_lines,
    client_side_lines,
    group_lines,
    offset_lines,
    shard_lines,
    share_lines,
)
from tests.scenarios.play import LINES, Scenario, read_scenarios
from tests.scenarios.players import KIT

LINES[:0] = group_lines.LINES + client_side_lines.LINES + shard_lines.LINES
LINES += classic_lines.LINES + offset_lines.LINES + admin_lines.LINES
LINES += share_lines.LINES

SCENARIOS: Final[Mapping[str, Scenario]] = {
    f"{file.stem}: {scenario.title}": scenario
    for file in sorted(Path(__file__).parent.glob("*.txt"))
    for scenario in read_scenarios(file.read_text())
}


def is_for(players: str) -> dict[str, Scenario]:
    """Return the scenarios for the kit, or for every player."""
    known = (KIT,) if players == KIT else ()
    return {
        name: scenario
        for name, scenario in SCENARIOS.items()
        if scenario.only is None or scenario.only.players in known
    }


def parameters_of(scenarios: Mapping[str, Scenario]) -> list[Any]:
    """Return parameters of a test, with the marks of their facts."""
    return [
        pytest.param(scenario, marks=pytest.mark.fact(*scenario.facts), id=name)
        for name, scenario in scenarios.items()
    ]
