"""The admin client for callers without an event loop.

    with SyncAdmin("localhost:9092") as admin:
        print(admin.list_groups().groups)

Every coroutine of `AdminClient` is a blocking method here, with the same arguments,
results and errors. Any number of threads may call at the same time; they share the
client's connections. A `progress` callback runs in the client's own thread. Ctrl-C
cancels the call of the main thread and leaves the client usable.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from coterie.client.admin.admin_client import AdminClient
from coterie.client.loop_thread import LoopThread
from coterie.client.options import ClientOptions
from coterie.errors import ClientError

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[AdminClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncAdmin, P], T]:
    """Return the blocking method for a coroutine of `AdminClient`."""

    # ParamSpec keeps names, defaults and types of the parameters for type checkers and
    # editors, `wraps` keeps signature and docstring for help(); so no second
    # declaration or generated stub has to follow the changes of AdminClient.
    @functools.wraps(call)
    def method(self: SyncAdmin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.wait(call(self._admin, *args, **kwargs))

    return method


class SyncAdmin:
    """A blocking admin client; `bootstrap` and `options` are those of AdminClient."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._admin = AdminClient(bootstrap, options)
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
            self._thread.wait(self._admin.close())
        self._thread.close()

    describe_cluster = _blocking(AdminClient.describe_cluster)
    describe_api_versions = _blocking(AdminClient.describe_api_versions)
    list_groups = _blocking(AdminClient.list_groups)
    describe_groups = _blocking(AdminClient.describe_groups)
    delete_groups = _blocking(AdminClient.delete_groups)
    find_coordinators = _blocking(AdminClient.find_coordinators)
    remove_members = _blocking(AdminClient.remove_members)
    list_group_offsets = _blocking(AdminClient.list_group_offsets)
    list_groups_offsets = _blocking(AdminClient.list_groups_offsets)
    alter_group_offsets = _blocking(AdminClient.alter_group_offsets)
    delete_group_offsets = _blocking(AdminClient.delete_group_offsets)
    list_share_groups_offsets = _blocking(AdminClient.list_share_groups_offsets)
    alter_share_group_offsets = _blocking(AdminClient.alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AdminClient.delete_share_group_offsets)
    list_offsets = _blocking(AdminClient.list_offsets)
    first_records = _blocking(AdminClient.first_records)
    delete_records = _blocking(AdminClient.delete_records)
    describe_log_dirs = _blocking(AdminClient.describe_log_dirs)
    describe_topics = _blocking(AdminClient.describe_topics)
    create_topics = _blocking(AdminClient.create_topics)
    delete_topics = _blocking(AdminClient.delete_topics)
    create_partitions = _blocking(AdminClient.create_partitions)
    describe_configs = _blocking(AdminClient.describe_configs)
    alter_configs = _blocking(AdminClient.alter_configs)
    list_config_resources = _blocking(AdminClient.list_config_resources)
    describe_acls = _blocking(AdminClient.describe_acls)
    create_acls = _blocking(AdminClient.create_acls)
    delete_acls = _blocking(AdminClient.delete_acls)
    describe_client_quotas = _blocking(AdminClient.describe_client_quotas)
    alter_client_quotas = _blocking(AdminClient.alter_client_quotas)
    describe_scram_users = _blocking(AdminClient.describe_scram_users)
    alter_scram_users = _blocking(AdminClient.alter_scram_users)
    list_transactions = _blocking(AdminClient.list_transactions)
    describe_transactions = _blocking(AdminClient.describe_transactions)
    describe_producers = _blocking(AdminClient.describe_producers)
    find_hanging_transactions = _blocking(AdminClient.find_hanging_transactions)
    abort_transactions = _blocking(AdminClient.abort_transactions)
    describe_features = _blocking(AdminClient.describe_features)
    update_features = _blocking(AdminClient.update_features)
