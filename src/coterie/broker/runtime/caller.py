"""The client of a request, as the runtime uses it."""

from __future__ import annotations

from typing import Protocol

from coterie.types import TopicName


class Caller(Protocol):
    """The interface of a request's client that the coordinator uses."""

    @property
    def api_version(self) -> int:
        """The version of the request."""

    @property
    def client_id(self) -> str:
        """The client id in the request's header."""

    @property
    def client_host(self) -> str:
        """The client's address, as in "/127.0.0.1"."""

    def may_describe(self, topic: TopicName) -> bool:
        """Return whether DESCRIBE on a topic is authorized (E14-08)."""
