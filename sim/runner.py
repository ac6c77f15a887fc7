"""Run worlds: one, or many on several processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from sim.broken import Broken, recording_bugs
from sim.disk import open_disk
from sim.gateway.phases import run_gateway_world
from sim.gateway.world import GatewayWorld
from sim.phases import run_world
from sim.population import Population
from sim.world import World

_CHUNK = 10
W = TypeVar("W", bound=Population)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a world; `broken` describes the violated invariant."""

    seed: int
    steps: int
    digest: str
    broken: str | None = None
    transcript: str = ""
    history: str = ""
    """The history of commits and fetches in JSON; see sim.gateway.history."""

    def __str__(self) -> str:
        verdict = f"BROKEN: {self.broken}" if self.broken else "in order"
        return f"seed {self.seed}: {verdict} (after {self.steps} steps, {self.digest})"


def run_seed(
    seed: int, *, keep_transcript: bool = True, store: str = "memory"
) -> Outcome:
    """Run one world; the outcome always includes the transcript if an invariant is
    violated. `store` is a name of sim.disk.STORES.
    """
    with recording_bugs() as recorder, open_disk(store) as disk:
        world = World(seed, recorder, disk)
        broken = _failure(run_world, world)
        world.disk.crash()
        return _outcome(world, broken, keep_transcript=keep_transcript)


def run_gateway_seed(seed: int, *, keep_transcript: bool = True) -> Outcome:
    """Run one world with several nodes of a gateway, as `run_seed` does."""
    with recording_bugs() as recorder:
        world = GatewayWorld(seed, recorder)
        broken = _failure(run_gateway_world, world)
        world.note_logs()
        outcome = _outcome(world, broken, keep_transcript=keep_transcript)
        return replace(outcome, history=world.gateway_checker.history.export(seed))


def _failure(run: Callable[[W], None], world: W) -> str | None:
    try:
        run(world)
    except Broken as found:
        return str(found)
    except Exception:
        return f"the harness or the server failed:\n{traceback.format_exc()}"
    return None


def _outcome(
    world: Population, broken: str | None, *, keep_transcript: bool
) -> Outcome:
    wants_text = keep_transcript or broken
    text = world.transcript.text() if wants_text else ""
    digest = world.transcript.digest() if wants_text else ""
    return Outcome(world.seed, world.steps, digest, broken, text)


def run_seeds(
    seeds: Iterable[int],
    jobs: int = 1,
    store: str = "memory",
    *,
    gateway: bool = False,
) -> Iterator[Outcome]:
    """Run many worlds; yield their outcomes as they end."""
    run_quietly: Callable[[int], Outcome] = partial(
        run_seed, keep_transcript=False, store=store
    )
    if gateway:
        run_quietly = partial(run_gateway_seed, keep_transcript=False)
    if jobs == 1:
        yield from map(run_quietly, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_quietly, seeds, _CHUNK)
