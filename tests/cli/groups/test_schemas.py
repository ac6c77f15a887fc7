"""The keys of every kind of item are a promise to scripts.

One that is added goes into golden/schemas.txt; one that is gone or renamed takes a new
schema version.
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


def test_the_keys_of_each_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = CliAdmin(logs={TopicPartition("t", 0): FakeLog.of(0, 9)})
    admin.add(group("g", member("m", ("t", 0))), t=1)
    shell = make_shell(admin, monkeypatch, capsys)
    found = []
    for line in LINES:
        document = shell.json(line)
        keys = ", ".join(document["items"][0])
        found.append(f"{document['schema']} {document['schema_version']}: {keys}\n")
    assert is_golden("schemas", "".join(found))
