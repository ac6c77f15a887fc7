"""Generate a log of `__consumer_offsets` as segment files, with the ground truth beside
it.

The folder has `__consumer_offsets-N/` for each log partition, `truth/` (see `truth.py`)
and `manifest.json`: the options, and the counts of written records. Equal options give
equal bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from coterie.errors import SettingError
from coterie.settings import Settings
from coterie.testing.log_generator.scenarios import (
    DAY_MS,
    SCENARIOS,
    GroupLifetime,
    write_topics,
)
from coterie.testing.log_generator.segment_files import (
    SegmentFiles,
    compacted_batches,
)
from coterie.testing.log_generator.world import LogLayout, Script, World
from coterie.types import OFFSETS_TOPIC
from coterie.wire.compression import Codec

_START_MS: Final = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
_TEAMS: Final = ("billing", "search", "orders", "fraud", "mail", "ads", "stock")
_SERVICES: Final = ("loader", "mirror", "report", "index", "alert", "export")
_SAMPLES: Final = 100
_RETENTION_CHECK_MS: Final = 6 * 3_600_000
_START_WITHIN: Final = 20
"""Groups start in the first 1/20 of the time."""


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """The options of a generated log; `commits` is an approximate number."""

    folder: Path
    groups: int = 100
    commits: int = 100_000
    days: int = 30
    seed: int = 1
    partitions: int = 50
    codec: Codec = Codec.NONE
    retention_days: int = 7

    def check(self) -> None:
        """Raise SettingError for invalid values, or if the folder is not empty."""
        for name in ("groups", "commits", "days", "partitions"):
            if getattr(self, name) < 1:
                raise SettingError(f"--{name} must be 1 or more")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise SettingError(f"{self.folder} is not empty: choose another directory")


def generate(options: GeneratorOptions) -> World:
    """Write the log and its ground truth; return the world in its final state.

    Raises SettingError as `GeneratorOptions.check` does.
    """
    options.check()
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        offsets_retention_minutes=options.retention_days * DAY_MS // 60_000,
        offsets_retention_check_interval_ms=_RETENTION_CHECK_MS,
        offsets_topic_num_partitions=options.partitions,
    )
    layout = LogLayout(
        folder=options.folder, partitions=options.partitions, codec=options.codec
    )
    rng = Random(options.seed)  # noqa: S311 - equal seeds give equal bytes
    world = World(rng, settings, layout, _START_MS)
    end_ms = _START_MS + options.days * DAY_MS
    _start_groups(world, options, end_ms)
    world.start(_sample_ends(world, end_ms), _START_MS)
    world.run(end_ms)
    write_topics(world)
    world.close()
    manifest = {
        "schema": "coterie.pipeline.generated",
        "schema_version": 1,
        "groups": options.groups,
        "commits_wanted": options.commits,
        "days": options.days,
        "seed": options.seed,
        "codec": options.codec.name.lower(),
        "retention_days": options.retention_days,
        "start_ms": _START_MS,
        "end_ms": end_ms,
        "lines": world.truth.counts,
        "end_offsets": [log.end_offset for log in world.logs],
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (options.folder / "manifest.json").write_text(text, encoding="utf-8", newline="\n")
    return world


def write_compacted(world: World, folder: Path) -> None:
    """Write the world's log after compaction: the same current state, with gaps in the
    offsets.
    """
    for log in world.logs:
        source = world.layout.folder / f"{OFFSETS_TOPIC}-{log.index}"
        files = SegmentFiles(folder, log.index, world.layout.segment_bytes)
        for base_offset, batch in compacted_batches(source, world.now_ms):
            files.append(base_offset, batch)
        files.close()


def _start_groups(world: World, options: GeneratorOptions, end_ms: int) -> None:
    # Each scenario is used once, and then in proportion to its share of the groups.
    names = list(SCENARIOS)
    while len(names) < options.groups:
        for name, scenario in SCENARIOS.items():
            names += [name] * scenario.groups
    names = names[: options.groups]
    traffic = sum(SCENARIOS[name].traffic for name in names)
    lives: list[GroupLifetime] = []
    for index, name in enumerate(names):
        scenario = SCENARIOS[name]
        quota = max(1, options.commits * scenario.traffic // traffic)
        group_id = _group_id(index, name, lives)
        life = GroupLifetime(world, group_id, quota, end_ms, name)
        lives.append(life)
        world.truth.write(
            "groups",
            group_id=group_id,
            log_partition=world.log_of(group_id).index,
            scenario=name,
        )
        latest_ms = (end_ms - world.now_ms) // _START_WITHIN
        start_ms = world.now_ms + world.rng.randint(0, latest_ms)
        world.start(scenario.script(life), start_ms)
        if name != "simple":  # the script commits
            world.start(life.commit_offsets(), start_ms + 60_000)


def _group_id(index: int, scenario: str, lives: list[GroupLifetime]) -> str:
    if scenario == "typo":
        taken = {life.group_id for life in lives}
        correct = (life.group_id for life in lives if life.scenario != "typo")
        misspelled = (f"{name[:3]}{name[4:]}" for name in correct)
        return next(name for name in misspelled if name not in taken)
    team = _TEAMS[index % len(_TEAMS)]
    service = _SERVICES[index // 7 % len(_SERVICES)]
    return f"{team}-{service}-{index:04d}"


def _sample_ends(world: World, end_ms: int) -> Script:
    """Write the end offsets of all partitions at equal intervals."""
    interval_ms = (end_ms - world.now_ms) // _SAMPLES
    while True:
        for topic in world.topics.by_name.values():
            for partition in range(topic.partitions):
                world.truth.write(
                    "ends",
                    **topic.partition(partition)._asdict(),
                    at_ms=world.now_ms,
                    log_start_offset=0,
                    end_offset=topic.end_offset(partition, world.now_ms),
                )
        yield interval_ms
