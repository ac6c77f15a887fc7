"""The admin client for callers without an event loop.

    with SyncAdmin("localhost:9092") as admin:
        print(admin.groups.list().groups)

It has the families of `AdminClient`, and each of their coroutines is a blocking method
here, with the same arguments, results and errors. Any number of threads may call at the
same time; they share the client's connections. A `progress` callback runs in the
client's own thread. Ctrl-C cancels the call of the main thread and leaves the client
usable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Self

from coterie.client import admin
from coterie.client.admin.admin_client import AdminClient
from coterie.client.options import ClientOptions
from coterie.errors import ClientError
from coterie.loop_thread import LoopThread


class SyncAdmin:
    """A blocking admin client; `bootstrap` and `options` are those of AdminClient."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._client = AdminClient(bootstrap, options)
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; pending calls raise ConnectionLost. May be called
        again."""
        with contextlib.suppress(ClientError):  # closed by another thread
            self._thread.wait(self._client.close())
        self._thread.close()

    acls = cached_property(lambda self: admin.SyncAcls(self._client.acls, self._thread))
    brokers = cached_property(
        lambda self: admin.SyncBrokers(self._client.brokers, self._thread)
    )
    configs = cached_property(
        lambda self: admin.SyncConfigs(self._client.configs, self._thread)
    )
    features = cached_property(
        lambda self: admin.SyncFeatures(self._client.features, self._thread)
    )
    group_offsets = cached_property(
        lambda self: admin.SyncCommittedOffsets(
            self._client.group_offsets, self._thread
        )
    )
    groups = cached_property(
        lambda self: admin.SyncGroups(self._client.groups, self._thread)
    )
    logs = cached_property(lambda self: admin.SyncLogs(self._client.logs, self._thread))
    quotas = cached_property(
        lambda self: admin.SyncQuotas(self._client.quotas, self._thread)
    )
    records = cached_property(
        lambda self: admin.SyncRecords(self._client.records, self._thread)
    )
    share_groups = cached_property(
        lambda self: admin.SyncShareGroups(self._client.share_groups, self._thread)
    )
    topics = cached_property(
        lambda self: admin.SyncTopics(self._client.topics, self._thread)
    )
    transactions = cached_property(
        lambda self: admin.SyncTransactions(self._client.transactions, self._thread)
    )
    users = cached_property(
        lambda self: admin.SyncScramUsers(self._client.users, self._thread)
    )
