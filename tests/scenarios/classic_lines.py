"""The lines of scenarios in which members speak the classic protocol (E20)."""

from __future__ import annotations

from coterie.wire.messages.heartbeat import HeartbeatRequest
from tests.coordinator.classic.members import join, leave, sync
from tests.coordinator.consumer.faces import assigned, classic_group, offers
from tests.scenarios.play import _WHO, Act, Play, partitions, words

# What happens.


def begin(play: Play, shares: str) -> None:
    """A stable classic group, all of whose members want all its topics."""
    named: dict[str, dict[str, list[int]]] = {}
    for each in shares.split("; "):
        who, share = each.split(" ", 1)
        named[who] = partitions(share)
    topics = sorted({topic for share in named.values() for topic in share})
    given = {f"-{who}": share for who, share in named.items()}
    ids = classic_group(play.driver, given, protocols=offers(*topics))
    play.ids.update(zip(named, ids, strict=True))


def enters(
    play: Play,
    who: str,
    topics: str,
    owned: str | None = None,
    instance: str | None = None,
) -> None:
    protocols = offers(*words(topics), owned=partitions(owned or ""))
    member_id = play.ids.get(who, "")
    play.sent = join(
        play.driver, member_id, protocols=protocols, group_instance_id=instance
    )
    if not play.sent.parked and not play.sent.error:
        play.ids[who] = play.sent.response.member_id


def syncs(play: Play, who: str, generation: str) -> None:
    play.sent = sync(play.driver, play.ids[who], int(generation))


def pings(play: Play, who: str, generation: str) -> None:
    request = HeartbeatRequest(
        group_id="g", member_id=play.ids[who], generation_id=int(generation)
    )
    play.sent = play.driver.send(request)


def goes(play: Play, who: str) -> None:
    play.sent = leave(play.driver, play.ids.get(who, who))


# What must be so.


def is_answered(play: Play, generation: str) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error
    assert play.sent.response.generation_id == int(generation)


def is_given(play: Play, share: str) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error
    wanted = {} if share == "nothing" else partitions(share)
    assert assigned(play.sent.response.assignment) == wanted


def is_well(play: Play) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error


def is_classic(play: Play, state: str, generation: str) -> None:
    assert not play.driver.state.consumer_groups
    group = play.driver.groups["g"]
    assert (group.state.value, group.generation) == (state, int(generation))


LINES: list[tuple[str, Act]] = [
    (r"classic (?P<shares>.+)", begin),
    (
        rf"{_WHO} enters (?P<topics>\w+)(, owns (?P<owned>[\w ,-]+?))?"
        r"( as (?P<instance>\w+))?",
        enters,
    ),
    (rf"{_WHO} syncs at (?P<generation>\d+)", syncs),
    (rf"{_WHO} pings at (?P<generation>\d+)", pings),
    (rf"{_WHO} goes", goes),
    (r"-> generation (?P<generation>\d+)", is_answered),
    (r"-> is given (?P<share>[\w ,-]+)", is_given),
    (r"-> all is well", is_well),
    (
        r"the group is classic, (?P<state>\w+) in generation (?P<generation>\d+)",
        is_classic,
    ),
]
"""As `play.LINES`; a line that both know is that one's."""
