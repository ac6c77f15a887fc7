"""A client of the control API that checks statuses."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

WAIT_S = 60.0


class HttpClient:
    """Requests to one address, a connection each."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def post(self, path: str, body: object = None, *, status: int | None = None) -> Any:
        """Send a body and return the response, which has `status` or is a success."""
        return self.send("POST", path, body, status=status)

    def delete(self, path: str) -> Any:
        return self.send("DELETE", path)

    def error(self, method: str, path: str, status: int, body: object = None) -> Any:
        """Return the error response of a request that is refused with `status`."""
        refusal = self.send(method, path, body, status=status)
        assert refusal.keys() == {"error", "fix"}
        assert refusal["fix"]
        return refusal

    def send(
        self, method: str, path: str, body: object = None, *, status: int | None = None
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        actual, content = self.raw(method, path, data, headers)
        if status is None:
            assert actual in {200, 201}, (actual, content)
        else:
            assert actual == status, (actual, content)
        return content

    def raw(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Any]:
        """Send a request as it is; return the status and content of the response."""
        connection = HTTPConnection(self.address, timeout=WAIT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()
