"""An S3-compatible server on loopback: moto, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from unittest.mock import patch

BUCKET = "lakes"
# The server ends with its standard input, also when the test process is killed.
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Run the server with one empty bucket, and set the environment of its clients;
    return its address."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            bucket = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(bucket).close()
            with patch.dict(os.environ, _settings(address)):
                yield address
        finally:
            server.stdin.close()


def _settings(address: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        # Only a server without TLS needs it.
        "AWS_ALLOW_HTTP": "true",
    }
