"""The imports of a command, which determine its start-up time. The benchmarks measure
the time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.broker.server.harness import ThreadServer

pytestmark = pytest.mark.slow

_RUN = """
import sys
from coterie.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("loaded:", *sys.modules)
"""
HEAVY = ("asyncio", "ssl", "logging", "coterie.wire.schema")
"""Modules that `--help` must not import."""
LAZY = ("coterie.client.", "coterie.operations.")
"""Packages of which `--help` imports no module: commands use their names, which are
imported on first use."""
NAMESPACES = {"coterie.client.settings", "coterie.operations.exporter"}
"""Packages with lazy names of their own, which cost nothing either."""
NOT_FOR_LIST = (
    "prometheus_client",
    "crc32c",
    "cramjam",
    "re2",
    "csv",
    "importlib.metadata",
    "coterie.broker.server",
    "coterie.broker.runtime",
    "coterie.broker.coordinator",
    "coterie.broker.catalog",
    "coterie.broker.log",
    "coterie.client.group_member",
    "coterie.operations.lag",
    "coterie.wire.record_batch",
)


def loaded(*arguments: str) -> set[str]:
    """Return the modules that a command line imports."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        yield f"{host}:{port}"


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["groups", "--help"],
        ["groups", "list", "--help"],
        ["groups", "reset", "--help"],
        ["groups", "plan", "--help"],
        ["groups", "offsets", "set", "--help"],
        ["groups", "watch", "--help"],
        ["topics", "consumers", "--help"],
        ["topics", "configs", "set", "--help"],
        ["topics", "records", "produce", "--help"],
        ["topics", "records", "read", "--help"],
        ["cluster", "health", "--help"],
        ["completion", "bash"],
    ],
)
def test_help_has_no_heavy_imports(words: list[str]) -> None:
    modules = loaded(*words)
    assert not modules.intersection(HEAVY)
    assert {each for each in modules if each.startswith(LAZY)} <= NAMESPACES


@pytest.mark.parametrize("form", ["table", "json"])
def test_listing_groups_imports_only_the_needed_modules(
    form: str, address: str
) -> None:
    words = ["groups", "list", "--output", form, "--bootstrap-server", address]
    modules = loaded(*words)
    assert "asyncio" in modules
    assert not modules.intersection(NOT_FOR_LIST)


def test_only_the_needed_calls_and_messages_are_imported(address: str) -> None:
    modules = loaded("groups", "list", "--bootstrap-server", address)
    others = ("acls", "brokers", "configs", "log_offsets", "topics", "transactions")
    assert "coterie.client.admin.group_calls" in modules
    assert not modules & {f"coterie.client.admin.{each}" for each in others}
    prefix = "coterie.wire.messages."
    assert {
        module.removeprefix(prefix) for module in modules if module.startswith(prefix)
    } == {"cluster", "group_admin"}
