"""Warnings about files of a server that other users can read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.broker.log.journal import JournalLog
from coterie.broker.server.secret_files import open_secrets
from coterie.broker.server.server import Server, ServerOptions
from coterie.settings import Settings


def make(path: Path, mode: int) -> Path:
    path.write_text("content")
    path.chmod(mode)
    return path


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_files_with_secrets_that_others_can_read(tmp_path: Path, mode: int) -> None:
    settings = Settings(
        ssl_key_password="secret",
        ssl_keystore_location=str(make(tmp_path / "server.pem", mode)),
        sasl_users_file=str(make(tmp_path / "users.toml", mode)),
    )
    config = make(tmp_path / "coterie.toml", mode)
    found = [each.path.name for each in open_secrets(settings, config, None)]
    expected = ["coterie.toml", "server.pem", "users.toml"]
    assert found == ([] if mode == 0o600 else expected)


def test_a_config_file_without_a_secret_may_be_readable(tmp_path: Path) -> None:
    config = make(tmp_path / "coterie.toml", 0o644)
    assert list(open_secrets(Settings(), config, None)) == []


def test_a_new_data_directory_is_private(tmp_path: Path) -> None:
    JournalLog(tmp_path / "data").close()
    assert list(open_secrets(Settings(), None, tmp_path / "data")) == []


@pytest.mark.posix
def test_an_open_data_directory_is_found_with_its_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    JournalLog(data).close()
    data.chmod(0o755)
    (data / "coterie.db").chmod(0o644)
    (data / "segments").chmod(0o755)
    found = [str(each) for each in open_secrets(Settings(), None, data)]
    assert found == [
        f"{data} has credentials and messages, and other users can read it: "
        f"chmod 700 {data}",
        f"{data / 'coterie.db'} has credentials and messages, and other users can read "
        f"it: chmod 600 {data / 'coterie.db'}",
        f"{data / 'segments'} has messages, and other users can read it: "
        f"chmod 700 {data / 'segments'}",
    ]


@pytest.mark.posix
def test_a_server_warns_when_it_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    options = ServerOptions(
        settings=Settings(), host="127.0.0.1", port=0, directory=tmp_path
    )

    async def start_and_stop() -> None:
        server = Server(options)
        await server.start()
        await server.stop()

    asyncio.run(start_and_stop())
    assert f"chmod 700 {tmp_path}" in caplog.text
