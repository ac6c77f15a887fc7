"""The topic of the shards, created in a cluster whose brokers learn of it later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.results import Results
from coterie.client.options import ClientOptions
from coterie.errors import ApiError
from coterie.gateway.upstream import topic as topics
from coterie.wire.error_codes import ErrorCode
from tests.support.flat_calls import FlatCalls

pytestmark = pytest.mark.asyncio

NAME = "__coterie_test"


class FakeAdmin(FlatCalls):
    """A cluster in which a created topic is unknown to `late` requests."""

    def __init__(self, late: int) -> None:
        self.cluster = SimpleNamespace(options=ClientOptions())
        self.created = 0
        self._unknown = late + 1

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(cluster_id="c", nodes=[1])

    async def describe_topics(self, names: list[str]) -> Results[str, Any]:
        self._unknown -= 1
        if self._unknown >= 0:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Results({}, dict.fromkeys(names, ApiError(code)))
        found = SimpleNamespace(name=NAME, topic_id=bytes(16), partitions=[0, 1])
        return Results({NAME: found})

    async def create_topics(self, _: object) -> Results[str, None]:
        self.created += 1
        return Results({NAME: None})


async def test_a_created_topic_may_be_unknown_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "POLL_S", 0)
    admin = FakeAdmin(late=3)
    opened = await topics.open_topic(
        cast("AdminClient", admin), NAME, partition_count=2
    )
    assert (opened.partition_count, admin.created) == (2, 1)
