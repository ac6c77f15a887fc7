"""Groups of both protocols, made by a real client's consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.clients.admin import produce
from tests.clients.members import Crew

PROTOCOLS: Final = ("classic", "consumer")
CLIENT_ID: Final = "reader"


@contextmanager
def consuming(
    bootstrap: str, group: str, topic: str, protocol: str, *, members: int = 1
) -> Iterator[Crew]:
    """A group whose members share the two partitions of a topic and have committed what
    they read: offset 3 of each partition, of 5 records."""
    produce(bootstrap, topic, {0: [b"v"] * 3, 1: [b"v"] * 3})
    config = {"group.protocol": protocol, "client.id": CLIENT_ID}
    crew = Crew(bootstrap, group, topic, **config)
    for _ in range(members):
        crew.join()
    try:
        crew.poll_until_shared(2)
        crew.poll_until(lambda: len(crew.seen) == 6)
        for member in crew.members:
            member.commit()
        produce(bootstrap, topic, {0: [b"v"] * 2, 1: [b"v"] * 2})
        yield crew
    finally:
        for member in tuple(crew.members):
            member.commits = False
            member.consumer.close()


def make_empty_group(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    """The same group, whose members have left."""
    with consuming(bootstrap, group, topic, protocol) as crew:
        crew.leave(crew.members[0])
