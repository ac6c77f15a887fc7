"""Groups of both protocols with real consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.real_clients.confluent_admin import produce
from tests.real_clients.confluent_members import ConfluentGroup

PROTOCOLS: Final = ("classic", "consumer")
CLIENT_ID: Final = "reader"


@contextmanager
def consuming(
    bootstrap: str, group: str, topic: str, protocol: str, *, members: int = 1
) -> Iterator[ConfluentGroup]:
    """Run a group whose members share the two partitions of a topic.

    The group has committed offset 3 of each partition, and each has 5 records.
    """
    produce(bootstrap, topic, {0: [b"v"] * 3, 1: [b"v"] * 3})
    config = {"group.protocol": protocol, "client.id": CLIENT_ID}
    crew = ConfluentGroup(bootstrap, group, topic, **config)
    for _ in range(members):
        crew.join()
    try:
        crew.poll_until_assigned(2)
        crew.poll_until(lambda: len(crew.records) == 6)
        for member in crew.members:
            member.commit()
        produce(bootstrap, topic, {0: [b"v"] * 2, 1: [b"v"] * 2})
        yield crew
    finally:
        for member in tuple(crew.members):
            member.commits = False
            member.consumer.close()


def make_empty_group(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    """Create a group like that of `consuming` whose only member has left."""
    with consuming(bootstrap, group, topic, protocol) as crew:
        crew.leave(crew.members[0])
