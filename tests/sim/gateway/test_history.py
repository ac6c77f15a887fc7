"""The history of commits and fetches that a checker of linearizability judges, and
porcupine's judgement of it.

The judge needs Go, and the Go module proxy once: `tests/sim/gateway/linearizability`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.gateway.history import History
from sim.runner import run_gateway_seed
from sim.topics import Topics
from sim.transactions import Transaction
from tests.support.environment import REAL_HOME

_JUDGE: Final = Path(__file__).parent / "linearizability"
_BUILD_S: Final = 180
_JUDGE_S: Final = 120
_UNREACHABLE: Final = re.compile(
    r"dial tcp|no such host|i/o timeout|not found in", re.IGNORECASE
)
_UNCERTAIN: Final = (ErrorCode.NOT_COORDINATOR,)
WORLDS: Final = range(1, 6)


@pytest.fixture
def history() -> History:
    topics = Topics(Random(1))
    topics.create("t", 1)
    return History(topics, _UNCERTAIN)


class Commit:
    """A commit of one offset, whose response the test sends."""

    def __init__(
        self, history: History, offset: int, transaction: Transaction | None = None
    ) -> None:
        part = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = m.OffsetCommitRequest(
            group_id="g",
            topics=[m.OffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        self._respond = history.watch(request, lambda _: None, transaction, 0)

    def end(self, code: ErrorCode = ErrorCode.NONE) -> None:
        part = m.OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = m.OffsetCommitResponseTopic(name="t", partitions=[part])
        self._respond(m.OffsetCommitResponse(topics=[topic]))


def commit(history: History, offset: int, code: ErrorCode = ErrorCode.NONE) -> None:
    Commit(history, offset).end(code)


def fetch(history: History, offset: int) -> None:
    request = FetchOffsets(
        m.OffsetFetchRequestGroup(group_id="g", topics=None), require_stable=False
    )
    part = m.OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset)
    topic = m.OffsetFetchResponseTopics(name="t", partitions=[part])
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic])
    history.watch(request, lambda _: None)(group)


def operations(history: History) -> Any:
    return json.loads(history.export(7))["registers"].get("g/t/0")


def test_an_operation_lasts_from_its_request_to_its_response(history: History) -> None:
    commit(history, 5)
    fetch(history, 5)
    assert operations(history) == [[True, 5, 1, 2], [False, 5, 3, 4]]


def test_a_commit_without_a_certain_outcome_does_not_end(history: History) -> None:
    Commit(history, 5)
    commit(history, 6, ErrorCode.NOT_COORDINATOR)
    commit(history, 7, ErrorCode.ILLEGAL_GENERATION)
    assert operations(history) == [[True, 5, 1, -1], [True, 6, 2, -1]]


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_in_a_transaction_ends_with_its_marker(
    history: History, commits: bool
) -> None:
    transaction = Transaction(1, 0)
    Commit(history, 5, transaction).end()
    Commit(history, 6, transaction)
    transaction.commits = commits
    history.transaction_ended(transaction, 0)
    expected = [[True, 5, 1, 3], [True, 6, 2, -1]] if commits else []
    assert operations(history) == expected


def test_partitions_of_a_deleted_topic_are_left_out(history: History) -> None:
    commit(history, 5)
    history.topic_deleted("t")
    assert operations(history) is None


# The judge.


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that judges histories."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: apt-get install golang")
    program = tmp_path_factory.mktemp("judge") / "judge"
    home = os.environ.get(REAL_HOME, os.environ["HOME"])
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=_JUDGE,
        env={**os.environ, "HOME": home},
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_S,
    )
    if built.returncode and _UNREACHABLE.search(built.stderr):
        pytest.skip(f"no modules can be downloaded: {built.stderr[-500:]}")
    assert built.returncode == 0, built.stderr
    return program


def judged(judge: Path, *histories: str) -> tuple[int, str]:
    done = subprocess.run(
        [judge],
        input="\n".join(histories),
        capture_output=True,
        text=True,
        check=False,
        timeout=_JUDGE_S,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(_BUILD_S + _JUDGE_S)
def test_the_judge_finds_a_lost_commit(judge: Path, history: History) -> None:
    commit(history, 5)
    fetch(history, 5)
    assert judged(judge, history.export(7))[0] == 0
    commit(history, 6)
    fetch(history, 5)
    code, output = judged(judge, history.export(7))
    assert code == 1
    assert "seed 7: g/t/0 is not linearizable" in output


@pytest.mark.slow
@pytest.mark.timeout(_BUILD_S + _JUDGE_S)
def test_a_commit_without_a_response_may_take_effect_later(
    judge: Path, history: History
) -> None:
    Commit(history, 5)
    fetch(history, -1)
    commit(history, 6)
    fetch(history, 6)
    fetch(history, 5)
    assert judged(judge, history.export(7))[0] == 0
    fetch(history, 6)
    assert judged(judge, history.export(7))[0] == 1


@pytest.mark.slow
@pytest.mark.timeout(_BUILD_S + _JUDGE_S)
def test_the_histories_of_worlds_are_linearizable(judge: Path) -> None:
    histories = [
        run_gateway_seed(seed, keep_transcript=False).history for seed in WORLDS
    ]
    code, output = judged(judge, *histories)
    assert code == 0, output
    assert f"{len(histories)} worlds" in output
