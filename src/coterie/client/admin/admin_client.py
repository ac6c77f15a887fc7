"""The admin client of a Kafka cluster.

    async with AdminClient("localhost:9092") as admin:
        listed = await admin.groups.list()
        described = await admin.groups.describe(g.group_id for g in listed.groups)

A call about many items returns `Results`: one outcome for each item, so a deleted
topic, an unavailable broker or a missing ACL is the error of that item and raises
nothing. A call raises only errors of the whole call: ClientError when no broker can be
reached and, for calls about one group, the error of that group. A call takes at most
`ClientOptions.api_timeout_ms`.

Brokers from Kafka 0.11 on are supported. A request that a broker is too old for fails
with UnsupportedByBroker; no argument is silently ignored.

Each family of calls is a class of its own, which is imported on first use, so that
commands such as `coterie topics list` do not import messages that they do not send.
`client.sync.SyncAdmin` has the same families.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Self

from coterie.client import admin
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions


class AdminClient:
    """An asynchronous admin client of one Kafka cluster.

    `bootstrap` holds addresses HOST:PORT, as a sequence or separated by commas; any
    brokers of the cluster suffice. The client connects on its first call and belongs to
    the event loop that runs then.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self.cluster = Cluster(bootstrap, options or ClientOptions())
        """The connections of this client, for a `Producer` or a `RecordReader`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; pending calls raise ConnectionLost."""
        await self.cluster.close()

    acls = cached_property(lambda self: admin.Acls(self.cluster))
    brokers = cached_property(lambda self: admin.Brokers(self.cluster))
    configs = cached_property(lambda self: admin.Configs(self.cluster))
    features = cached_property(lambda self: admin.Features(self.cluster))
    group_offsets = cached_property(lambda self: admin.CommittedOffsets(self.cluster))
    groups = cached_property(lambda self: admin.Groups(self.cluster))
    logs = cached_property(lambda self: admin.Logs(self.cluster))
    quotas = cached_property(lambda self: admin.Quotas(self.cluster))
    records = cached_property(lambda self: admin.Records(self.cluster))
    share_groups = cached_property(lambda self: admin.ShareGroups(self.cluster))
    topics = cached_property(lambda self: admin.Topics(self.cluster))
    transactions = cached_property(lambda self: admin.Transactions(self.cluster))
    users = cached_property(lambda self: admin.ScramUsers(self.cluster))
