"""Files that command lines of the table name: plans of resets and client settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PLANS: Final = {
    "plan.csv": "orders,0,1\norders,1,2\n",
    "with-group.csv": "empty-classic,orders,0,1\nspare-c,orders,1,2\n",
    "empty.csv": "",
    "blank-line.csv": "\n",
    "blank-end.csv": "orders,0,1\n\n",
    "windows.csv": "orders,0,1\r\norders,1,2\r\n",
    "quoted.csv": '"orders",0,1\n',
    "header.csv": "topic,partition,offset\norders,0,1\n",
    "short.csv": "orders,0\n",
    "long.csv": "a,orders,0,1,5\n",
    "not-a-number.csv": "orders,x,1\n",
    "no-offset.csv": "orders,0,\n",
    "spaces.csv": "orders, 0, 1\n",
    "twice.csv": "orders,0,1\norders,0,2\n",
    "beyond.csv": "orders,0,99\norders,1,-5\n",
    "missing-topic.csv": "missing,0,1\n",
    "missing-partition.csv": "orders,9,1\n",
    "text.csv": "no plan\n",
}
CONFIGS: Final = {
    "empty.properties": "",
    "comment.properties": "# nothing\n",
    "unknown-key.properties": "no.such.key=1\n",
    "client-id.properties": "client.id=table\n",
    "wrong-value.properties": "request.timeout.ms=x\n",
    "wrong-protocol.properties": "security.protocol=NONE\n",
    "wrong-sasl.properties": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n",
    "no-store.properties": "security.protocol=SSL\nssl.truststore.location=/no/such\n",
    "wrong-store.properties": "ssl.truststore.type=x\nsecurity.protocol=SSL\n",
    "bad-escape.properties": "client.id=\\u00zz\n",
    "no-equals.properties": "client.id\n",
}


def write_files(folder: Path) -> None:
    """Write every file into a folder."""
    for name, text in (PLANS | CONFIGS).items():
        (folder / name).write_bytes(text.encode())
