"""A generated log and its truth: two accounts of the same, made apart."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from coterie.cli import main as cli
from coterie.coordinator.records.offset_commit import OffsetCommitValue
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import State
from coterie.errors import SettingError
from coterie.pipeline.generator.compacted import write_compacted
from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.generator.scenarios import SCENARIOS
from coterie.wire.codec import decode
from coterie.wire.compression import Codec
from coterie.wire.consumer_protocol import ConsumerProtocolAssignment
from tests.pipeline.generator.reading import (
    all_bytes,
    log_of,
    partitions_of,
    record_of,
    replayed,
    truth_of,
)

Offsets = dict[tuple[str, str, int], tuple[int, int]]


@pytest.fixture(scope="module", params=[1, 2])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("made") / "log"
    order = Order(
        folder=folder,
        groups=20,
        commits=1_500,
        days=12,
        seed=request.param,
        partitions=3,
        codec=Codec.LZ4,
    )
    write_compacted(generate(order), folder / "compacted")
    return folder


def _offsets(state: State) -> Offsets:
    return {
        (group_id, name.topic, name.partition): (each.offset, each.record_offset)
        for group_id in (*state.classic_groups, *state.consumer_groups)
        for name, each in state.offsets.stored.items(group_id)
    }


def _true_offsets(folder: Path) -> Offsets:
    return {
        (each["group_id"], each["topic"], each["partition"]): (
            each["offset"],
            each["log_offset"],
        )
        for each in truth_of(folder, "current_offsets")
    }


def _shards(folder: Path) -> list[Shard]:
    return [replayed(path) for path in partitions_of(folder)]


@pytest.mark.fact("K-03")
@pytest.mark.parametrize("variant", [".", "compacted"])
def test_the_log_replays_to_the_offsets_that_truth_has(
    made: Path, variant: str
) -> None:
    found: Offsets = {}
    for shard in _shards(made / variant):
        found |= _offsets(shard.state)
    assert found == _true_offsets(made)
    assert found


@pytest.mark.parametrize("variant", [".", "compacted"])
def test_the_log_replays_to_the_members_and_owners_that_truth_has(
    made: Path, variant: str
) -> None:
    members, owners = set(), set()
    names = {each["topic_id"]: each["topic"] for each in truth_of(made, "topics")}
    for shard in _shards(made / variant):
        for group_id, consumer in shard.state.consumer_groups.items():
            for member in consumer.members.values():
                members.add((group_id, member.member_id))
                for topic_id, held in member.assigned.items():
                    for partition in held:
                        name = names[topic_id.hex()]
                        owners.add((group_id, name, partition, member.member_id))
        for group_id, classic in shard.state.classic_groups.items():
            for each in classic.members.values():
                members.add((group_id, each.member_id))
                value, _ = decode(ConsumerProtocolAssignment, 1, each.assignment, 2)
                for topic in value.assigned_partitions:
                    for partition in topic.partitions:
                        owners.add((group_id, topic.topic, partition, each.member_id))
    true_members = {
        (each["group_id"], each["member_id"])
        for each in truth_of(made, "sessions")
        if each["end"] == "open"
    }
    true_owners = {
        (each["group_id"], each["topic"], each["partition"], each["member_id"])
        for each in truth_of(made, "ownership")
        if each["end"] == "open"
    }
    assert members == true_members
    assert owners == true_owners


def test_every_commit_that_truth_has_is_in_the_log_and_no_other(made: Path) -> None:
    logged = {}
    for index, folder in enumerate(partitions_of(made)):
        for header, entry in log_of(folder):
            if not header.is_control:
                value = record_of(entry).value
                if isinstance(value, OffsetCommitValue):
                    logged[index, entry.offset] = value.offset
    told = {
        (each["log_partition"], each["log_offset"]): each["offset"]
        for each in truth_of(made, "commits")
    }
    assert logged == told


def test_offsets_and_times_of_the_log_only_grow(made: Path) -> None:
    for folder in partitions_of(made):
        entries = [entry for _, entry in log_of(folder)]
        assert [entry.offset for entry in entries] == [*range(len(entries))]
        times = [entry.timestamp_ms for entry in entries]
        assert times == sorted(times)


def test_compaction_leaves_gaps_in_every_partition(made: Path) -> None:
    for folder in partitions_of(made / "compacted"):
        offsets = [entry.offset for _, entry in log_of(folder)]
        assert any(after > before + 1 for before, after in pairwise(offsets))


def test_nobody_owns_what_another_one_owns(made: Path) -> None:
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for each in truth_of(made, "ownership"):
        key = each["group_id"], each["topic_id"], each["partition"]
        to_ms = 2**62 if each["to_ms"] is None else each["to_ms"]
        spans.setdefault(key, []).append((each["from_ms"], to_ms))
    for some in spans.values():
        some.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(some))


def test_a_log_has_everything_that_happens_to_groups(made: Path) -> None:
    types: Counter[int] = Counter()
    controls = 0
    for folder in partitions_of(made):
        for header, entry in log_of(folder):
            controls += header.is_control
            if not header.is_control:
                assert entry.key is not None
                types[int.from_bytes(entry.key[:2])] += 1
    assert {1, 2, 3, 5, 6, 7, 8, 16} == types.keys()
    assert controls
    causes = {each["cause"] for each in truth_of(made, "rebalances")}
    assert {"join", "leave", "crash", "static_restart"} < causes
    assert {"subscription_change", "metadata_change"} < causes
    commits = truth_of(made, "commits")
    assert {"plain", "committed", "aborted", "open"} == {
        each["outcome"] for each in commits
    }
    assert {None, "rewind", "skip"} == {each["reset"] for each in commits}
    assert {"expired", "offsets_deleted", "group_deleted", "topic_deleted"} == {
        each["cause"] for each in truth_of(made, "deletions")
    }
    scenarios = {each["scenario"] for each in truth_of(made, "groups")}
    assert scenarios == SCENARIOS.keys()


@pytest.mark.slow
def test_the_same_order_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        seed = 2 if name == "other" else 1
        folder = tmp_path / name
        generate(Order(folder=folder, groups=5, commits=50, seed=seed, days=2))
    assert all_bytes(tmp_path / "one") == all_bytes(tmp_path / "two")
    assert all_bytes(tmp_path / "one") != all_bytes(tmp_path / "other")


def test_the_command_says_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = str(tmp_path / "log")
    wanted = ["--groups", "3", "--commits", "30", "--days", "1", "--codec", "zstd"]
    command = ["pipeline", "generate", *wanted, "--compacted", "--to", to]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("3 groups, ")
    assert len(partitions_of(tmp_path / "log" / "compacted")) == 50


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingError, match="is not empty"):
        generate(Order(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
