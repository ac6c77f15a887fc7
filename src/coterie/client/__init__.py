"""Asyncio and blocking clients of Kafka clusters, of Coterie's brokers or any other.

Everything that callers need is a name of this package: the clients, the values that
they take and return, and their errors. `__init__.pyi` lists the names. Each is imported
on first use, so that a command of the admin client does not import the group member.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
