"""The keys of every kind of item, on which scripts rely.

An added key goes into golden/schemas.txt; a removed or renamed one needs a new schema
version.
"""

from __future__ import annotations

import pytest

from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group, member

from .cli_cluster import CliAdmin, is_golden, make_shell

LINES = (
    "groups list",
    *(f"groups describe --by {by}" for by in ("partition", "topic", "member", "host")),
    "groups lag",
    "groups members",
    "topics consumers t",
)


def test_each_schema_has_its_documented_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = CliAdmin(known_logs={TopicPartition("t", 0): FakeLog.of(0, 9)})
    admin.add(group("g", member("m", ("t", 0))), t=1)
    shell = make_shell(admin, monkeypatch, capsys)
    lines = []
    for line in LINES:
        document = shell.json(line)
        keys = ", ".join(document["items"][0])
        lines.append(f"{document['schema']} {document['schema_version']}: {keys}\n")
    assert is_golden("schemas", "".join(lines))
