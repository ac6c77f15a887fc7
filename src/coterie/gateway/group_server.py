"""The group server of a gateway node: the embedded server's broker, with its shards on
the upstream cluster.

Its catalog is a read model of upstream: topics and ACL bindings are staged into a log
in memory as they change there. That log holds nothing else.
"""

from __future__ import annotations

import asyncio
import secrets

from coterie.auth.authorizer import AclAuthorizer, Authorizer
from coterie.broker.catalog.catalog import Catalog
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.quotas import Quotas
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.system import (
    Timekeeping,
    random_session_id,
    steady_clock,
    wall_clock,
)
from coterie.broker.runtime.topic_changes import TopicChanges
from coterie.broker.runtime.transactions import TransactionPlane
from coterie.broker.server.assembly import coordinator_environment
from coterie.broker.server.broker import Broker
from coterie.settings import Settings


def group_server(
    settings: Settings,
    cluster_id: str,
    authorizer: Authorizer,
) -> Broker:
    """Return a broker without nodes, whose shards are unassigned.

    It has to be created inside a running loop. Raises SettingError for an assignor that
    is not installed.
    """
    loop = asyncio.get_running_loop()
    clock = steady_clock()
    time = Timekeeping(clock, wall_clock, loop, loop)
    log = MemoryLog()
    flusher = Flusher(log, loop, threaded=False)
    acls = authorizer if isinstance(authorizer, AclAuthorizer) else None
    catalog = Catalog(settings, (1,), acls)
    data = DataPlane(log, flusher, catalog, timekeeping=time, scheduler=loop)
    data.load()
    environment = coordinator_environment(settings, catalog, time)
    runtime = Runtime(environment, scheduler=loop, timekeeping=time)
    catalog.watch(TopicChanges(runtime, loop).add)
    return Broker(
        settings=settings,
        log=log,
        flusher=flusher,
        catalog=catalog,
        data=data,
        runtime=runtime,
        transactions=TransactionPlane(data, runtime),
        authorizer=authorizer,
        acls=acls,
        fetch_sessions=FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            settings.max_incremental_fetch_session_cache_partitions,
            random_session_id,
        ),
        quotas=Quotas(settings, catalog.client_quotas),
        clock=clock,
        cluster_id=cluster_id,
        secret=secrets.token_bytes(),
    )
