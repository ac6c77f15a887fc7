"""Lines of scenarios about committed offsets (H.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.broker.coordinator.classic.group import GroupState
from coterie.wire.error_codes import ErrorCode
from tests.scenarios.play import _WHO, Act, Play, words

DAY_MS = 86_400_000


def _partition(text: str) -> tuple[str, int]:
    """Parse "foo-1" as a topic and a partition."""
    topic, _, number = text.strip().rpartition("-")
    return topic, int(number)


def _wanted(text: str) -> dict[str, list[int]]:
    """Parse "foo-0, foo-1" as topics and their partitions."""
    found: dict[str, list[int]] = {}
    for each in words(text):
        topic, number = _partition(each)
        found.setdefault(topic, []).append(number)
    return found


def _name(play: Play, who: str) -> str:
    return "" if who == "anonymous" else play.ids.get(who, who)


def _answers(play: Play, codes: Mapping[tuple[str, int], int]) -> None:
    play.sent, play.codes = None, list(codes.values())
    play.answers = {of: ErrorCode(code).name for of, code in codes.items()}


# Actions.


def commits(
    play: Play,
    who: str,
    offsets: str,
    epoch: str,
    instance: str | None = None,
    transaction: str | None = None,
    version: str | None = None,
    keep_ms: str | None = None,
    length: str | None = None,
    about: str | None = None,
) -> None:
    named: dict[tuple[str, int], Any] = {}
    for each in words(offsets):
        partition, _, offset = each.partition(" = ")
        named[_partition(partition)] = {"committed_offset": int(offset)}
    if length is not None and about is not None:
        named[_partition(about)]["committed_metadata"] = "x" * int(length)
    fields: dict[str, Any] = {
        "group_id": play.driver.group_id,
        "member_id": _name(play, who),
        "generation_id_or_member_epoch": int(epoch),
        "group_instance_id": instance,
    }
    if transaction is not None:
        fields |= {"producer_id": int(transaction), "version": int(version or 5)}
        _answers(play, play.driver.txn_commit(named, **fields))
        return
    if keep_ms is not None:
        fields["retention_time_ms"] = int(keep_ms)
    _answers(play, play.driver.commit(named, version=int(version or 9), **fields))


def ends(play: Play, producer: str, how: str) -> None:
    play.driver.end_transaction(int(producer), commit=how == "commits")


def fetches(
    play: Play, who: str, some: str, epoch: str | None = None, stable: str | None = None
) -> None:
    fields: dict[str, Any] = {}
    if epoch is not None:
        fields = {"member_id": _name(play, who), "member_epoch": int(epoch)}
    found = play.driver.fetch(
        None if some == "everything" else _wanted(some),
        stable=stable is not None,
        group_id=play.driver.group_id,
        **fields,
    )
    play.sent, play.codes = None, [found.error_code]
    play.answers = {
        (topic.name, each.partition_index): ErrorCode(each.error_code).name
        if each.error_code
        else _offset(each.committed_offset)
        for topic in found.topics
        for each in topic.partitions
    }


def _offset(offset: int) -> str:
    return "= nothing" if offset == -1 else f"= {offset}"


def deletes(play: Play, some: str) -> None:
    group_id = play.odd.get("group_id", play.driver.group_id)
    play.sent = play.driver.delete_offsets(_wanted(some), group_id)
    if not play.sent.error:
        topics: Iterable[Any] = play.sent.response.topics
        codes = {
            (topic.name, each.partition_index): each.error_code
            for topic in topics
            for each in topic.partitions
        }
        _answers(play, codes)


def are_swept(play: Play, days: str | None) -> None:
    play.driver.sweep(int(days or 0) * DAY_MS)


def resigns(play: Play) -> None:
    for group in play.driver.groups.values():
        group.state = GroupState.DEAD


# Expectations.


def each_answered(play: Play, offsets: str) -> None:
    wanted = {}
    if offsets != "no offsets":
        for each in words(offsets):
            partition, _, answer = each.partition(" ")
            wanted[_partition(partition)] = answer
    assert not play.sent
    assert play.answers == wanted, play.answers


def committed(play: Play, partition: str, offset: str) -> None:
    stored = play.driver.state.offsets.stored
    found = stored.get(play.driver.group_id, *_partition(partition))
    assert (None if found is None else found.offset) == (
        None if offset == "nothing" else int(offset)
    )


def expires(play: Play, partition: str, ms: str) -> None:
    stored = play.driver.state.offsets.stored
    found = stored.get(play.driver.group_id, *_partition(partition))
    assert found is not None
    assert found.expire_timestamp_ms == play.driver.now_ms + int(ms)
    assert [record.value_version for record in play.driver.wrote] == [1]


_PARTITION = r"\w+-\d+"
_SOME = rf"{_PARTITION}(, {_PARTITION})*"
_ANSWER = rf"{_PARTITION} (= \d+|= nothing|[A-Z_]+)"
LINES: list[tuple[str, Act]] = [
    (
        rf"{_WHO} commits (?P<offsets>{_PARTITION} = \d+(, {_PARTITION} = \d+)*) "
        r"at (?P<epoch>-?\d+)( as (?P<instance>\w+))?"
        r"( in transaction (?P<transaction>\d+))?( by v(?P<version>\d+))?"
        r"( for (?P<keep_ms>\d+) ms)?"
        rf"( with (?P<length>\d+) characters of metadata for (?P<about>{_PARTITION}))?",
        commits,
    ),
    (r"transaction (?P<producer>\d+) (?P<how>commits|aborts)", ends),
    (
        rf"{_WHO} fetches (?P<some>everything|nothing|{_SOME})( at (?P<epoch>-?\d+))?"
        r"(?P<stable>, if stable)?",
        fetches,
    ),
    (rf"an admin deletes the offsets of (?P<some>{_SOME})", deletes),
    (r"offsets expire( after (?P<days>\d+) days)?", are_swept),
    (r"the server resigns", resigns),
    (rf"-> (?P<offsets>no offsets|{_ANSWER}(, {_ANSWER})*)", each_answered),
    (rf"committed (?P<partition>{_PARTITION}) is (?P<offset>\d+|nothing)", committed),
    (rf"(?P<partition>{_PARTITION}) expires after (?P<ms>\d+) ms", expires),
]
"""Lines in the form of `play.LINES`."""
