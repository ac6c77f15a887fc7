"""Makes a log of `__consumer_offsets` as segment files, and its truth beside it.

What is written to a folder: `__consumer_offsets-N/` a log partition, `truth/` (see
`truth.py`), and `manifest.json`: what was asked for, and how much came of it. The same
order gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from coterie.errors import SettingError
from coterie.pipeline.generator.scenarios import (
    DAY_MS,
    SCENARIOS,
    Life,
    tell_topics,
)
from coterie.pipeline.generator.world import Script, Where, World
from coterie.settings import Settings
from coterie.wire.compression import Codec

_START_MS: Final = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
_TEAMS: Final = ("billing", "search", "orders", "fraud", "mail", "ads", "stock")
_WORKS: Final = ("loader", "mirror", "report", "index", "alert", "export")
_SAMPLES: Final = 100
_SWEEP_MS: Final = 6 * 3_600_000
_ARRIVE_WITHIN: Final = 20
"""Groups begin within the first of so many parts of the time."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a log is to hold. `commits` is about how many."""

    folder: Path
    groups: int = 100
    commits: int = 100_000
    days: int = 30
    seed: int = 1
    partitions: int = 50
    codec: Codec = Codec.NONE
    retention_days: int = 7

    def check(self) -> None:
        """Raises SettingError, which says what would be right."""
        for name in ("groups", "commits", "days", "partitions"):
            if getattr(self, name) < 1:
                raise SettingError(f"--{name} must be 1 or more")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise SettingError(f"{self.folder} is not empty: choose another directory")


def generate(order: Order) -> World:
    """Write it all. The world as it is in the end. Raises SettingError."""
    order.check()
    order.folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        offsets_retention_minutes=order.retention_days * DAY_MS // 60_000,
        offsets_retention_check_interval_ms=_SWEEP_MS,
        offsets_topic_num_partitions=order.partitions,
    )
    where = Where(folder=order.folder, partitions=order.partitions, codec=order.codec)
    rng = Random(order.seed)  # noqa: S311 - a seed is to decide everything
    world = World(rng, settings, where, _START_MS)
    end_ms = _START_MS + order.days * DAY_MS
    lives = _populate(world, order, end_ms)
    world.start(_sample(world, end_ms), _START_MS)
    world.run(end_ms)
    tell_topics(world)
    world.close()
    _write_manifest(world, order, lives, end_ms)
    return world


def _populate(world: World, order: Order, end_ms: int) -> list[Life]:
    names = _scenarios(order.groups)
    traffic = sum(SCENARIOS[name].traffic for name in names)
    lives: list[Life] = []
    for index, scenario in enumerate(names):
        share = SCENARIOS[scenario]
        quota = max(1, order.commits * share.traffic // traffic)
        group_id = _group_id(index, scenario, lives)
        life = Life(world, group_id, quota, end_ms, scenario)
        lives.append(life)
        where = world.part_of(group_id).index
        about = {"group_id": group_id, "log_partition": where, "scenario": scenario}
        world.truth.write("groups", **about)
        span_ms = (end_ms - world.now_ms) // _ARRIVE_WITHIN
        begin_ms = world.now_ms + world.rng.randint(0, span_ms)
        world.start(share.script(life), begin_ms)
        if scenario != "simple":
            world.start(life.work(), begin_ms + 60_000)
    return lives


def _scenarios(groups: int) -> list[str]:
    """One of each, as far as it goes; then by their shares."""
    names = list(SCENARIOS)
    while len(names) < groups:
        for name, share in SCENARIOS.items():
            names += [name] * share.groups
    return names[:groups]


def _group_id(index: int, scenario: str, lives: list[Life]) -> str:
    if scenario == "typo":
        taken = {life.group_id for life in lives}
        meant = (life.group_id for life in lives if life.scenario != "typo")
        slips = (f"{name[:3]}{name[4:]}" for name in meant)
        return next(name for name in slips if name not in taken)
    team, work = _TEAMS[index % len(_TEAMS)], _WORKS[index // 7 % len(_WORKS)]
    return f"{team}-{work}-{index:04d}"


def _sample(world: World, end_ms: int) -> Script:
    """Look at the ends of all partitions, regularly."""
    pause_ms = (end_ms - world.now_ms) // _SAMPLES
    while True:
        for topic in world.topics.known.values():
            for partition in range(topic.partitions):
                world.truth.write(
                    "ends",
                    **topic.part(partition)._asdict(),
                    at_ms=world.now_ms,
                    log_start_offset=0,
                    end_offset=topic.end_offset(partition, world.now_ms),
                )
        yield pause_ms


def _write_manifest(
    world: World, order: Order, lives: list[Life], end_ms: int
) -> dict[str, Any]:
    manifest = {
        "schema": "coterie.pipeline.generated",
        "schema_version": 1,
        "groups": len(lives),
        "commits_wanted": order.commits,
        "days": order.days,
        "seed": order.seed,
        "codec": order.codec.name.lower(),
        "retention_days": order.retention_days,
        "start_ms": _START_MS,
        "end_ms": end_ms,
        "lines": world.truth.counts,
        "end_offsets": [part.end_offset for part in world.parts],
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (order.folder / "manifest.json").write_text(text)
    return manifest
