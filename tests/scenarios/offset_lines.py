"""Lines of scenarios about committed offsets (H.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.wire.error_codes import ErrorCode
from tests.scenarios.play import _WHO, Act, Play, words


def partition_of(text: str) -> tuple[str, int]:
    """Parse "foo-1" as a topic and a partition."""
    topic, _, number = text.strip().rpartition("-")
    return topic, int(number)


def _wanted(text: str) -> dict[str, list[int]]:
    """Parse "foo-0, foo-1" as topics and their partitions."""
    found: dict[str, list[int]] = {}
    for each in words(text):
        topic, number = partition_of(each)
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
        named[partition_of(partition)] = {"committed_offset": int(offset)}
    if length is not None and about is not None:
        named[partition_of(about)]["committed_metadata"] = "x" * int(length)
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


# Expectations.


def each_answered(play: Play, offsets: str) -> None:
    wanted = {}
    if offsets != "no offsets":
        for each in words(offsets):
            partition, _, answer = each.partition(" ")
            wanted[partition_of(partition)] = answer
    assert not play.sent
    assert play.answers == wanted, play.answers


def committed(play: Play, partition: str, offset: str) -> None:
    found = play.driver.committed(*partition_of(partition))
    assert found == (None if offset == "nothing" else int(offset)), found


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
    (rf"-> (?P<offsets>no offsets|{_ANSWER}(, {_ANSWER})*)", each_answered),
    (rf"committed (?P<partition>{_PARTITION}) is (?P<offset>\d+|nothing)", committed),
]
"""Lines in the form of `play.LINES`."""
