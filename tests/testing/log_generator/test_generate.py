"""A generated log, replayed, has the state in the truth that is recorded beside it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from coterie.broker.coordinator.records import OffsetCommitValue
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.state import State
from coterie.cli import main as cli
from coterie.errors import SettingError
from coterie.testing.log_generator.generate import (
    GeneratorOptions,
    generate,
    write_compacted,
)
from coterie.testing.log_generator.scenarios import SCENARIOS
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.compression import Codec
from tests.testing.log_generator.generated_log import (
    all_bytes,
    decode_entry,
    partition_folders,
    read_records,
    read_truth,
    replay_partition,
)

Offsets = dict[tuple[str, str, int], tuple[int, int]]


@pytest.fixture(scope="module", params=[1, 2])
def log_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "log"
    options = GeneratorOptions(
        folder=folder,
        groups=20,
        commits=1_500,
        days=12,
        seed=request.param,
        partitions=3,
        codec=Codec.LZ4,
    )
    write_compacted(generate(options), folder / "compacted")
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
        for each in read_truth(folder, "current_offsets")
    }


def _shards(folder: Path) -> list[Shard]:
    return [replay_partition(path) for path in partition_folders(folder)]


@pytest.mark.fact("K-03")
@pytest.mark.parametrize("variant", [".", "compacted"])
def test_the_replayed_log_has_the_offsets_of_the_truth(
    log_folder: Path, variant: str
) -> None:
    found: Offsets = {}
    for shard in _shards(log_folder / variant):
        found |= _offsets(shard.state)
    assert found == _true_offsets(log_folder)
    assert found


@pytest.mark.parametrize("variant", [".", "compacted"])
def test_the_replayed_log_has_the_members_and_owners_of_the_truth(
    log_folder: Path, variant: str
) -> None:
    members, owners = set(), set()
    names = {
        each["topic_id"]: each["topic"] for each in read_truth(log_folder, "topics")
    }
    for shard in _shards(log_folder / variant):
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
                value, _ = decode(m.ConsumerProtocolAssignment, 1, each.assignment, 2)
                for topic in value.assigned_partitions:
                    for partition in topic.partitions:
                        owners.add((group_id, topic.topic, partition, each.member_id))
    true_members = {
        (each["group_id"], each["member_id"])
        for each in read_truth(log_folder, "sessions")
        if each["end"] == "open"
    }
    true_owners = {
        (each["group_id"], each["topic"], each["partition"], each["member_id"])
        for each in read_truth(log_folder, "ownership")
        if each["end"] == "open"
    }
    assert members == true_members
    assert owners == true_owners


def test_the_commits_of_the_log_are_those_of_the_truth(log_folder: Path) -> None:
    logged = {}
    for index, folder in enumerate(partition_folders(log_folder)):
        for header, entry in read_records(folder):
            if not header.is_control:
                value = decode_entry(entry).value
                if isinstance(value, OffsetCommitValue):
                    logged[index, entry.offset] = value.offset
    expected = {
        (each["log_partition"], each["log_offset"]): each["offset"]
        for each in read_truth(log_folder, "commits")
    }
    assert logged == expected


def test_offsets_are_consecutive_and_times_do_not_go_back(log_folder: Path) -> None:
    for folder in partition_folders(log_folder):
        entries = [entry for _, entry in read_records(folder)]
        assert [entry.offset for entry in entries] == [*range(len(entries))]
        times = [entry.timestamp_ms for entry in entries]
        assert times == sorted(times)


def test_compaction_leaves_gaps_in_every_partition(log_folder: Path) -> None:
    for folder in partition_folders(log_folder / "compacted"):
        offsets = [entry.offset for _, entry in read_records(folder)]
        assert any(after > before + 1 for before, after in pairwise(offsets))


def test_a_partition_has_one_owner_at_a_time(log_folder: Path) -> None:
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for each in read_truth(log_folder, "ownership"):
        key = each["group_id"], each["topic_id"], each["partition"]
        to_ms = 2**62 if each["to_ms"] is None else each["to_ms"]
        spans.setdefault(key, []).append((each["from_ms"], to_ms))
    for some in spans.values():
        some.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(some))


def test_a_log_has_all_record_types_causes_and_scenarios(log_folder: Path) -> None:
    types: Counter[int] = Counter()
    controls = 0
    for folder in partition_folders(log_folder):
        for header, entry in read_records(folder):
            controls += header.is_control
            if not header.is_control:
                assert entry.key is not None
                types[int.from_bytes(entry.key[:2])] += 1
    assert {1, 2, 3, 5, 6, 7, 8, 16} == types.keys()
    assert controls
    causes = {each["cause"] for each in read_truth(log_folder, "rebalances")}
    assert {"join", "leave", "crash", "static_restart"} < causes
    assert {"subscription_change", "metadata_change"} < causes
    commits = read_truth(log_folder, "commits")
    assert {"plain", "committed", "aborted", "open"} == {
        each["outcome"] for each in commits
    }
    assert {None, "rewind", "skip"} == {each["reset"] for each in commits}
    assert {"expired", "offsets_deleted", "group_deleted", "topic_deleted"} == {
        each["cause"] for each in read_truth(log_folder, "deletions")
    }
    scenarios = {each["scenario"] for each in read_truth(log_folder, "groups")}
    assert scenarios == SCENARIOS.keys()


@pytest.mark.slow
def test_equal_options_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        seed = 2 if name == "other" else 1
        folder = tmp_path / name
        generate(
            GeneratorOptions(folder=folder, groups=5, commits=50, seed=seed, days=2)
        )
    assert all_bytes(tmp_path / "one") == all_bytes(tmp_path / "two")
    assert all_bytes(tmp_path / "one") != all_bytes(tmp_path / "other")


def test_the_command_prints_counts_and_writes_the_compacted_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = str(tmp_path / "log")
    wanted = ["--groups", "3", "--commits", "30", "--days", "1", "--codec", "zstd"]
    command = ["pipeline", "generate", *wanted, "--compacted", "--to", to]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("3 groups, ")
    assert len(partition_folders(tmp_path / "log" / "compacted")) == 50


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingError, match="is not empty"):
        generate(GeneratorOptions(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
