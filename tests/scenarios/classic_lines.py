"""Lines of scenarios about members of the classic protocol (E20)."""

from __future__ import annotations

import re
from typing import Any

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    codes,
    join,
    join_request,
    leave,
    sync,
)
from tests.broker.coordinator.consumer.classic_requests import (
    assigned,
    classic_group,
    offers,
)
from tests.scenarios.play import _WHO, NEEDS, Act, Play, partitions, words
from tests.scenarios.players import KIT, Need

PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}

# Actions.


def begin(play: Play, shares: str) -> None:
    """Create a stable classic group whose members all subscribe to all its topics."""
    named: dict[str, dict[str, list[int]]] = {}
    keys: list[str] = []
    for each in shares.split("; "):
        who, instance, share = re.fullmatch(_SHARE, each).groups()  # type: ignore[union-attr]
        named[who] = {} if share == "nothing" else partitions(share)
        keys.append(instance or f"-{who}")
    topics = sorted({topic for share in named.values() for topic in share})
    given = dict(zip(keys, named.values(), strict=True))
    play.driver.awaits_joins = False
    ids = classic_group(play.driver, given, protocols=offers(*topics))
    play.driver.awaits_joins = True
    play.ids.update(zip(named, ids, strict=True))


def enters(
    play: Play,
    who: str,
    topics: str,
    owned: str | None = None,
    instance: str | None = None,
    protocol: str | None = None,
    version: str | None = None,
    once: str | None = None,
) -> None:
    """Send a JoinGroup, and again with the member id that it returns."""
    fields: dict[str, Any] = {"owned": partitions(owned or "")}
    if version is not None:
        fields["version"] = int(version)
    protocols = offers(*words(topics), names=words(protocol or "range"), **fields)
    known: dict[str, Any] = {"protocols": protocols, "group_instance_id": instance}
    if once is not None:
        request = join_request(**known)
        play.sent = play.requests[who] = play.driver.send(request, version=9)
        return
    play.sent = join(play.driver, play.ids.get(who, ""), **{**known, **play.odd})
    play.requests[who] = play.sent
    if not play.sent.parked and not play.sent.error:
        play.ids[who] = play.sent.response.member_id


def syncs(
    play: Play,
    who: str,
    generation: str,
    instance: str | None = None,
    protocol: str | None = None,
) -> None:
    member_id = play.ids.get(who, who)
    known = {"group_instance_id": instance, **PROTOCOL, **play.odd}
    if protocol is not None:
        known["protocol_name"] = protocol
    play.sent = sync(play.driver, member_id, int(generation), **known)
    play.requests[who] = play.sent


def pings(play: Play, who: str, generation: str) -> None:
    known = {
        "group_id": "g",
        "member_id": play.ids.get(who, who),
        "generation_id": int(generation),
    }
    play.sent = play.driver.send(m.HeartbeatRequest(**{**known, **play.odd}))


def keeps_pinging(play: Play, who: str, generation: str, seconds: str) -> None:
    """Send a heartbeat every five seconds."""
    for _ in range(0, int(seconds), 5):
        play.driver.advance(5_000)
        pings(play, who, generation)


def leaves(play: Play, names: str, version: str | None = None) -> None:
    some: list[tuple[str, str | None]] = []
    for each in words(names):
        who, _, instance = each.partition(" as ")
        some.append(
            ("" if who == "anonymous" else play.ids.get(who, who), instance or None)
        )
    if version is None and not play.odd:
        play.sent = leave(play.driver, *some)
        play.codes = codes(play.sent)
        return
    known = {"group_id": "g", "member_id": some[0][0], **play.odd}
    play.sent = play.driver.send(
        m.LeaveGroupRequest(**known), version=int(version or 2)
    )


# Expectations.


def is_answered(play: Play, generation: str) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error
    assert play.sent.response.generation_id == int(generation)


def gets_error(play: Play, who: str, code: str) -> None:
    sent = play.requests[who]
    assert sent.error == ErrorCode[code], sent.error


def waits(play: Play, who: str) -> None:
    assert play.requests[who].parked


def is_given(play: Play, share: str, version: str | None = None) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error
    wanted = {} if share == "nothing" else partitions(share)
    data = play.sent.response.assignment
    assert assigned(data) == wanted, assigned(data)
    assert version is None or data[:2] == bytes([0, int(version)])


def has_no_error(play: Play) -> None:
    assert play.sent is not None
    assert not play.sent.error, play.sent.error


def each_gets_error(play: Play, expected: str) -> None:
    assert play.sent is not None
    assert not play.sent.error
    assert [ErrorCode(code).name for code in play.codes] == words(expected)


def is_classic(play: Play, state: str, generation: str) -> None:
    found = play.driver.classic_group()
    assert found in ((state, int(generation)), (state, None)), found


_SHARE = r"(\w+)(?: as (\w+))? (.+)"
_ONE = r"[a-z]\w*( as \w+)?"
LINES: list[tuple[str, Act]] = [
    (r"classic (?P<shares>.+)", begin),
    (
        rf"{_WHO} sends JoinGroup (?P<topics>\w+)(, owns (?P<owned>[\w ,-]+?))?"
        r"( as (?P<instance>\w+))?( by (?P<protocol>\w+(, \w+)*))?"
        r"( in v(?P<version>\d))?(?P<once>, once)?",
        enters,
    ),
    (
        rf"{_WHO} sends SyncGroup at (?P<generation>\d+)( as (?P<instance>\w+))?"
        r"( by (?P<protocol>\w+))?",
        syncs,
    ),
    (rf"{_WHO} sends Heartbeat at (?P<generation>\d+)", pings),
    (
        rf"{_WHO} sends Heartbeat at (?P<generation>\d+) for (?P<seconds>\d+) s",
        keeps_pinging,
    ),
    (rf"(?P<names>{_ONE}(, {_ONE})*) sends LeaveGroup( by v(?P<version>\d))?", leaves),
    (r"-> generation (?P<generation>\d+)", is_answered),
    (r"-> gets (?P<share>[\w ,-]+?)( in v(?P<version>\d))?", is_given),
    (r"-> each: (?P<expected>[A-Z_, ]+)", each_gets_error),
    (rf"{_WHO} gets (?P<code>[A-Z_]+)", gets_error),
    (rf"{_WHO} waits", waits),
    (r"-> ok", has_no_error),
    (
        r"the group is classic, (?P<state>\w+) in generation (?P<generation>\d+)",
        is_classic,
    ),
]
"""Lines in the form of `play.LINES`, which takes precedence for equal lines."""
NEEDS[keeps_pinging] = Need(KIT, "the clock moves")
