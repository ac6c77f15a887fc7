"""The load generator counts only responses with the expected error code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.figures import Rounds, Skipped
from benchmarks.harness.load import LoadShape, build_generator, load
from benchmarks.harness.processes import python, running
from benchmarks.peers.connection import frame
from coterie.wire import messages as m

# Long enough for some responses on a busy machine.
SHORT = Rounds(1, 0.5)
HEARTBEAT = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server that responds to every heartbeat without an error."""
    log: Path = tmp_path_factory.mktemp("floor") / "log"
    with contextlib.ExitStack() as stack:
        try:
            build_generator()
            server = stack.enter_context(running(python("peers.asyncio_floor"), log))
        except Skipped as reason:
            pytest.skip(str(reason))
        yield server.address


@pytest.mark.slow
def test_responses_with_the_expected_code_are_counted(floor: str) -> None:
    shape = LoadShape(connections=2, in_flight=4, error_at=9)
    measured = load(floor, [frame(HEARTBEAT, 4)], shape, SHORT)
    assert measured.rate > 0
    assert 0 < measured.p50_us <= measured.p99_us


@pytest.mark.slow
def test_responses_with_another_code_fail_the_benchmark(floor: str) -> None:
    # Offset 2 has the lower half of the correlation id, which is rarely 0, so that it
    # is counted as an error code.
    shape = LoadShape(connections=2, in_flight=4, error_at=2)
    with pytest.raises(RuntimeError, match="bad_code"):
        load(floor, [frame(HEARTBEAT, 4)], shape, SHORT)
