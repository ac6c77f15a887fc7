"""The server: groups and their coordinators, the log, and the connections of clients.

The names of this package are what the gateway makes its nodes of, and what the test kit
uses: the server, the group server and its shards, the interface of a shard's log, the
requests of clients and what limits their connections. `__init__.pyi` lists them. Each
is imported on first use.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
