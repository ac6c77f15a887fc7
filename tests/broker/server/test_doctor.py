"""Checks of a server's configuration and data directory."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from crc32c import crc32c

from coterie import portable_os
from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.journal_frames import read_frames
from coterie.broker.server import doctor
from coterie.broker.server.doctor import (
    FREE_ERROR_BYTES,
    FREE_WARNING_BYTES,
    Finding,
    Level,
    ServeCommand,
    check_configuration,
    check_directory,
)
from coterie.broker.server.journal_view import JOURNALS, StoreFile
from coterie.broker.server.users import UserStore, password_entry
from coterie.settings import Settings
from coterie.types import ScramMechanism, SecurityProtocol
from tests.broker.log.logs import PARTITION, append, open_small
from tests.broker.server.secured import users_file

PLAINTEXT, SSL, SASL, SASL_SSL = (
    SecurityProtocol.PLAINTEXT,
    SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT,
    SecurityProtocol.SASL_SSL,
)


class Usage(NamedTuple):
    free: int


@pytest.fixture(autouse=True)
def _enough_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40))


def plan(**values: Any) -> ServeCommand:
    known = {
        "protocol": PLAINTEXT,
        "host": "127.0.0.1",
        "advertised": None,
        "config": None,
        "directory": None,
    }
    return ServeCommand(**{**known, **values})


def problems(findings: Iterable[Finding]) -> dict[str, Level]:
    """Return the level of each check that found a problem."""
    return {
        each.check: each.level
        for each in findings
        if each.level in {Level.WARNING, Level.ERROR}
    }


def checked(settings: Settings, made: ServeCommand) -> dict[str, Level]:
    found = list(check_configuration(settings, made))
    assert all(
        each.advice for each in found if each.level in {Level.WARNING, Level.ERROR}
    )
    return problems(found)


@pytest.fixture(autouse=True)
def _open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable_os, "open_files_limit", lambda: 65_536)


def test_the_defaults_on_loopback_have_no_problem() -> None:
    assert checked(Settings(), plan()) == {}


class Case(NamedTuple):
    settings: Settings
    plan: ServeCommand
    expected: dict[str, Level]


ADMIN = ("User:admin",)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            Settings(authorizer="allow-all"),
            plan(host="192.0.2.1"),
            {"authorizer": Level.ERROR, "encryption": Level.WARNING},
        ),
        Case(
            Settings(),
            plan(host="0.0.0.0", advertised="kafka.example"),
            {"authorizer": Level.ERROR, "encryption": Level.WARNING},
        ),
        Case(
            Settings(super_users=ADMIN),
            plan(host="0.0.0.0"),
            {"advertised": Level.WARNING, "encryption": Level.WARNING},
        ),
        Case(
            Settings(super_users=ADMIN, sasl_enabled_mechanisms=("PLAIN",)),
            plan(host="192.0.2.1", protocol=SASL),
            {"encryption": Level.ERROR, "users": Level.ERROR},
        ),
        Case(Settings(), plan(protocol=SSL), {"tls": Level.ERROR}),
        Case(Settings(log_flush_sync=False), plan(), {"durability": Level.WARNING}),
        Case(Settings(max_connections=65_536), plan(), {"open files": Level.WARNING}),
        Case(Settings(max_connections=65_000), plan(), {}),
    ],
)
def test_dangerous_combinations_are_found(case: Case) -> None:
    assert checked(case.settings, case.plan) == case.expected


def test_a_low_limit_of_open_files_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable_os, "open_files_limit", lambda: 1_024)
    assert checked(Settings(), plan()) == {"open files": Level.WARNING}


def test_users_of_the_file_and_of_the_store_are_found(tmp_path: Path) -> None:
    settings = Settings(sasl_users_file=str(users_file(tmp_path)))
    assert checked(settings, plan(protocol=SASL)) == {}
    with UserStore(tmp_path / "data") as store:
        entry = password_entry("alice", ScramMechanism.SCRAM_SHA_256, "secret", 4_096)
        store.write([entry])
        made = plan(protocol=SASL, directory=tmp_path / "data")
        assert checked(Settings(), made) == {}, "also while a server uses it"
    assert checked(Settings(), made) == {}


def test_an_invalid_users_file_is_an_error(tmp_path: Path) -> None:
    settings = Settings(sasl_users_file=str(tmp_path / "none"))
    assert checked(settings, plan(protocol=SASL)) == {"users": Level.ERROR}


@pytest.mark.parametrize(
    ("days", "level"), [(-1, Level.ERROR), (5, Level.WARNING), (90, Level.OK)]
)
def test_the_validity_of_the_certificate_is_checked(
    tmp_path: Path, days: int, level: Level
) -> None:
    path = tmp_path / "server.pem"
    made = trustme.CA().issue_cert(
        "localhost", not_after=datetime.now(UTC) + timedelta(days=days, hours=1)
    )
    path.write_bytes(made.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    settings = Settings(ssl_keystore_location=str(path))
    found = list(check_configuration(settings, plan(protocol=SSL)))
    [tls] = [each for each in found if each.check == "tls"]
    assert tls.level is level, tls


def test_text_before_a_certificate_may_have_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    made = trustme.CA().issue_cert("localhost")
    # As openssl writes the subject of a certificate from PKCS12.
    subject = "subject=CN = Müller\n".encode("latin-1")
    path.write_bytes(subject + made.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    settings = Settings(ssl_keystore_location=str(path))
    found = list(check_configuration(settings, plan(protocol=SSL)))
    [tls] = [each for each in found if each.check == "tls"]
    assert tls.level is not Level.ERROR, tls


@pytest.mark.posix
def test_readable_secrets_are_found(tmp_path: Path) -> None:
    path = users_file(tmp_path)
    path.chmod(0o644)
    settings = Settings(sasl_users_file=str(path))
    found = checked(settings, plan(protocol=SASL))
    assert found == {"secrets": Level.WARNING}


def test_access_to_secrets_is_not_checked_on_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    found = list(check_configuration(Settings(), plan()))
    [secrets] = [each for each in found if each.check == "secrets"]
    assert (secrets.level, "not checked" in secrets.message) == (Level.NOTE, True)


# The data directory.


def levels(directory: Path, *, is_full: bool = False) -> dict[str, Level]:
    found = check_directory(directory, is_full=is_full)
    return {each.check: each.level for each in found}


def test_a_directory_that_does_not_exist_is_a_note(tmp_path: Path) -> None:
    assert levels(tmp_path / "none") == {"data": Level.NOTE}
    assert levels(tmp_path) == {"disk": Level.OK, "store": Level.NOTE}


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert levels(tmp_path / "file") == {"data": Level.ERROR}


def test_a_store_is_checked_and_not_changed(tmp_path: Path) -> None:
    open_small(tmp_path).close()
    before = sorted(tmp_path.iterdir())
    all_ok = dict.fromkeys(("disk", "lock", "store", "segments"), Level.OK)
    assert levels(tmp_path) == all_ok
    assert sorted(tmp_path.iterdir()) == before
    log = open_small(tmp_path)
    try:
        messages = [each.message for each in check_directory(tmp_path, is_full=False)]
        assert f"a server uses {tmp_path}" in messages
        assert levels(tmp_path) == all_ok
    finally:
        log.close()


def test_an_unclean_stop_is_a_note(tmp_path: Path) -> None:
    log = open_small(tmp_path / "data")
    log.put("space", b"key", b"value")
    log.flush()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    log.close()
    found = levels(tmp_path / "copy")
    assert (found["lock"], found["store"]) == (Level.NOTE, Level.OK)


def test_a_damaged_store_is_an_error(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    for number in range(2_000):
        log.put("space", b"%d" % number, bytes(100))
    log.close()
    store = tmp_path / MANIFEST_NAME
    data = bytearray(store.read_bytes())
    data[8_192:20_000] = b"x" * (20_000 - 8_192)
    store.write_bytes(data)
    assert levels(tmp_path)["store"] is Level.ERROR


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 99"])
def test_a_store_of_another_version_or_application_is_an_error(
    tmp_path: Path, pragma: str
) -> None:
    open_small(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / MANIFEST_NAME)) as connection:
        connection.execute(f"PRAGMA {pragma}")
    assert levels(tmp_path)["store"] is Level.ERROR


def test_a_file_that_is_no_store_needs_no_backup(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(b"something else entirely" * 100)
    finding = findings(tmp_path)["store"]
    assert finding.level is Level.ERROR
    assert "is not a Coterie store" in finding.message
    assert "backup" not in finding.advice


def journal_log(directory: Path) -> JournalLog:
    log = open_small(directory)
    if PARTITION not in log.partitions():
        log.create(PARTITION)
        for _ in range(3):
            append(log)
        log.flush()
    return log


def findings(directory: Path, *, is_full: bool = False) -> dict[str, Finding]:
    return {each.check: each for each in check_directory(directory, is_full=is_full)}


def test_the_segments_and_journals_of_a_store_are_checked(tmp_path: Path) -> None:
    log = journal_log(tmp_path)
    found = findings(tmp_path)["segments"]
    assert found.level is Level.OK
    assert "0 segments with 0 bytes, and 1 writes after them" in found.message
    log.close()
    found = findings(tmp_path, is_full=True)["segments"]
    assert "1 segments with 300 bytes, and 0 writes after them" in found.message
    assert problems(check_directory(tmp_path, is_full=True)) == {}


@pytest.mark.parametrize(
    ("damage", "is_full", "level"),
    [
        ("missing", False, Level.ERROR),
        ("short", False, Level.ERROR),
        ("changed", False, None),
        ("changed", True, Level.ERROR),
    ],
)
def test_damaged_segments_are_found(
    tmp_path: Path, damage: str, is_full: bool, level: Level | None
) -> None:
    journal_log(tmp_path).close()
    [path] = tmp_path.glob("segments/*/*.log")
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "short" else data[:-1] + b"x")
    found = problems(check_directory(tmp_path, is_full=is_full))
    assert found == ({} if level is None else {"store": level})


def test_a_damaged_journal_is_an_error(tmp_path: Path) -> None:
    log = journal_log(tmp_path / "data")
    for _ in range(3):
        append(log)
        log.flush()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    log.close()
    [(salt,)] = StoreFile(tmp_path / "copy").query("SELECT salt FROM journal")
    path = tmp_path / "copy" / JOURNALS[0]
    data = bytearray(path.read_bytes())
    second = read_frames(bytes(data), crc32c(salt))[1]
    data[second.end - 1] ^= 1
    path.write_bytes(data)
    [problem] = [
        each
        for each in check_directory(tmp_path / "copy", is_full=False)
        if each.level is Level.ERROR
    ]
    assert "are not in the journals" in problem.message


def test_users_whose_creation_is_in_a_journal_are_counted(tmp_path: Path) -> None:
    log = journal_log(tmp_path)
    entry = password_entry("alice", ScramMechanism.SCRAM_SHA_256, "secret", 4_096)
    log.put(entry.space, *entry.encode())
    log.flush()
    made = plan(protocol=SASL, directory=tmp_path)
    assert problems(check_configuration(Settings(), made)) == {}
    log.close()


def test_a_large_store_is_checked_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_small(tmp_path).close()
    monkeypatch.setattr(doctor, "CHECKED_BYTES_MAX", 0)
    assert levels(tmp_path)["store"] is Level.NOTE
    assert levels(tmp_path, is_full=True)["store"] is Level.OK


@pytest.mark.parametrize(
    ("free", "level"),
    [
        (FREE_ERROR_BYTES - 1, Level.ERROR),
        (FREE_WARNING_BYTES - 1, Level.WARNING),
        (FREE_WARNING_BYTES, Level.OK),
    ],
)
def test_little_free_space_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))
    assert levels(tmp_path)["disk"] is level
