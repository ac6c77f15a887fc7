"""Lines that only a shard can play: its timers, its log and its assignor."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer.group import Refresh
from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.consumer.record_builders import current_record
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.result import Origin
from tests.broker.coordinator.requests import topic_id
from tests.scenarios.offset_lines import partition_of
from tests.scenarios.play import _WHO, NEEDS, Act, Play, partitions, words
from tests.scenarios.players import SHARD, Need

DAY_MS = 86_400_000


def topics_silently(play: Play, name: str, count: str) -> None:
    play.driver.set_topics({name: int(count)}, silent=True)


def broadcasts_no_change(play: Play) -> None:
    play.driver.fire(TopicsChanged(()))


def assignor_returns(play: Play, shares: str) -> None:
    given = {}
    for each in shares.split("; "):
        who, share = each.split(" ", 1)
        given[play.ids.get(who, who)] = {} if share == "nothing" else partitions(share)
    play.driver.assigns(given)


def assignor_fails(play: Play) -> None:
    def fail(spec: object) -> None:
        raise RuntimeError("no")

    play.driver.assigns(fail)


def write_fails(play: Play) -> None:
    """Drop the records of the last step as not written, and reload the shard."""
    kept = len(play.driver.history) - len(play.driver.results[-1].records)
    del play.driver.history[kept:]
    play.restarts()


def is_corrupt(play: Play, who: str, owns: str) -> None:
    """Assert that replaying a second owner of these partitions fails."""
    member = play.driver.member(who)
    held = {
        topic_id(topic): dict.fromkeys(some, member.epoch)
        for topic, some in partitions(owns).items()
    }
    record = current_record(play.driver.group_id, member._replace(assigned=held))
    with pytest.raises(AssertionError, match="still owned"):
        play.driver.shard.replay(record, Origin(0, 0))


def is_unknown(play: Play, who: str) -> None:
    member = play.driver.member(who)._replace(state=MemberState.UNKNOWN)
    driver = play.driver
    driver._keep(current_record(driver.group_id, member), Origin(0, driver.now_ms))


def are_swept(play: Play, days: str | None) -> None:
    play.driver.sweep(int(days or 0) * DAY_MS)


# Expectations.


def timer(play: Play, kind: str, who: str, seconds: str | None = None) -> None:
    found = play.driver.timers.get((kind, play.driver.group_id, play.ids.get(who, who)))
    if seconds is None:
        assert found is None, found
    else:
        assert found is not None
        left_ms = found.fires_at_ms - play.driver.now_ms
        assert left_ms == round(float(seconds) * 1000), left_ms


def expires(play: Play, partition: str, ms: str) -> None:
    stored = play.driver.state.offsets.stored
    found = stored.get(play.driver.group_id, *partition_of(partition))
    assert found is not None
    assert found.expire_timestamp_ms == play.driver.now_ms + int(ms)
    assert [record.value_version for record in play.driver.wrote] == [1]


def is_subscribed(play: Play, topic: str, groups: str) -> None:
    found = play.driver.state.topic_index.groups(topic)
    assert sorted(found) == ([] if groups == "no group" else words(groups)), found


def refreshes(play: Play, group: str, no: str | None) -> None:
    refresh = play.driver.state.consumer_groups[group].refresh
    assert (refresh == Refresh()) is (no is None), refresh


_KIND = r"(?P<kind>session|rebalance|join|sync)"
_BY_NEED: dict[str, list[tuple[str, Act]]] = {
    "timers are not visible": [
        (rf"the {_KIND} of {_WHO} ends in (?P<seconds>[\d.]+) s", timer),
        (rf"no {_KIND} of {_WHO} ends", timer),
        (r"(?P<partition>\w+-\d+) expires after (?P<ms>\d+) ms", expires),
        (r"offsets expire( after (?P<days>\d+) days)?", are_swept),
    ],
    "the assignor is scripted": [
        (r"the assignor returns (?P<shares>[\w ,;-]+)", assignor_returns),
        (r"the assignor fails", assignor_fails),
    ],
    "the log is changed": [
        (r"that write fails", write_fails),
        (
            rf"a log that also assigns (?P<owns>[\w ,-]+) to {_WHO} is corrupt",
            is_corrupt,
        ),
        (rf"a later version wrote an unknown state of {_WHO}", is_unknown),
    ],
    "topic metadata inside the coordinator": [
        (
            r"topic (?P<name>\w+) (?P<count>\d+), without a broadcast",
            topics_silently,
        ),
        (r"the catalog broadcasts no change", broadcasts_no_change),
        (r"(?P<topic>\w+) is subscribed to by (?P<groups>[\w, ]+)", is_subscribed),
        (
            r"group (?P<group>\w+) (?P<no>does not )?refresh(es)? its topics at the "
            r"next heartbeat",
            refreshes,
        ),
    ],
}
LINES = [line for lines in _BY_NEED.values() for line in lines]
"""Lines in the form of `play.LINES`."""
NEEDS.update(
    (act, Need(SHARD, why)) for why, lines in _BY_NEED.items() for _, act in lines
)
