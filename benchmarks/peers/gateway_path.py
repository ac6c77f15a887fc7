"""The data path of a gateway node as a process, with a group server in memory.

`python -m benchmarks.peers.gateway_path HOST:PORT` listens in front of the broker at
that address, which has the only id 1 of its cluster, and serves until SIGTERM. With
`plain` as a further argument it runs on asyncio's own loop instead of uvloop.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import uvloop

from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.broker import Node
from coterie.broker.server.connections import Connections
from coterie.broker.server.security import Security
from coterie.client.connection import Address
from coterie.client.options import ClientOptions
from coterie.gateway.path.addresses import Addresses, UpstreamBroker
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.group_apis import group_handlers
from coterie.gateway.path.listeners import Listeners
from coterie.gateway.view import NodeInfo, View
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from tests.support.ports import free_ports

HOST = "127.0.0.1"


async def serve(upstream: Address) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = Settings()
    assembly = Assembly(settings, MemoryLog())
    port = free_ports(2)[0]
    own = NodeInfo(name="benchmark", host=HOST, port=port, broker_port=port + 1)
    view = View((own,), (0,) * 50, 1)
    node = Node(own.node_id, HOST, port, assembly.broker)
    assembly.broker.nodes.append(node)
    assembly.start()
    security = Security(
        SecurityProtocol.PLAINTEXT, settings, lambda *_: None, lambda *_: None
    )
    connections = Connections(settings, group_handlers(lambda: view), security)
    addresses = Addresses(lambda: view, own)
    addresses.learn([UpstreamBroker(1, *upstream)])
    path = DataPath(
        node, connections, addresses, ClientOptions(), topic="__coterie_benchmark"
    )
    listeners = Listeners(path, HOST, port)
    await listeners.start()
    gc.collect()
    gc.freeze()
    print(f"gateway ready on {HOST}:{port}", flush=True)
    await stopped.wait()
    await listeners.stop_accepting()
    listeners.abort()
    assembly.stop()


if __name__ == "__main__":
    run = asyncio.run if "plain" in sys.argv[2:] else uvloop.run
    run(serve(Address.parse(sys.argv[1])))
