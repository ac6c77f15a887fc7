"""The load generator counts right answers only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.figures import Rounds, Skipped
from benchmarks.generator import Shape, built, load
from benchmarks.peer import frame
from benchmarks.processes import python, running
from coterie.wire.messages.heartbeat import HeartbeatRequest

# Long enough to see answers on a machine that does other things too.
SHORT = Rounds(1, 0.5)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that answers every heartbeat with no error."""
    log: Path = tmp_path_factory.mktemp("floor") / "log"
    with contextlib.ExitStack() as stack:
        try:
            built()
            server = stack.enter_context(running(python("floor"), log))
        except Skipped as reason:
            pytest.skip(str(reason))
        yield server.address


@pytest.mark.slow
def test_answers_are_counted_when_their_code_is_right(floor: str) -> None:
    shape = Shape(connections=2, in_flight=4, error_at=9)
    measured = load(floor, [frame(HEARTBEAT, 4)], shape, SHORT)
    assert measured.rate > 0
    assert 0 < measured.p50_us <= measured.p99_us


@pytest.mark.slow
def test_answers_with_another_code_fail_the_bench(floor: str) -> None:
    # At byte 2 stands the lower half of the correlation id, which is hardly ever 0.
    shape = Shape(connections=2, in_flight=4, error_at=2)
    with pytest.raises(RuntimeError, match="bad_code"):
        load(floor, [frame(HEARTBEAT, 4)], shape, SHORT)
