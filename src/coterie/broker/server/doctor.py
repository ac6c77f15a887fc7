"""Checks of a server's configuration and data directory, without starting it.

Each check returns findings: what was found, at which level, and what to do. Nothing is
changed: the store is opened read-only, also while a server uses it.
"""

from __future__ import annotations

import os
import shutil
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from coterie import portable_os
from coterie.broker.catalog.entries import EntryKind, space_of
from coterie.broker.log.directory import LOCK_NAME, MANIFEST_NAME
from coterie.broker.log.manifest import STORE_VERSION
from coterie.broker.log.segments import partition_directory, segment_path
from coterie.broker.server.journal_view import JournalView, StoreFile
from coterie.broker.server.secret_files import open_secrets
from coterie.broker.server.security import make_tls_context
from coterie.broker.server.users import read_users_file
from coterie.errors import LogError, MalformedFrame, SettingError
from coterie.http_endpoint import is_loopback
from coterie.settings import INT32_MAX, Settings
from coterie.types import SecurityProtocol
from coterie.wire.record_batch import crc_matches, read_header

CHECKED_BYTES_MAX: Final = 1 << 30
"""The size of a store up to which every page is checked by default."""
FREE_ERROR_BYTES: Final = 100 << 20
FREE_WARNING_BYTES: Final = 1 << 30
CERTIFICATE_DAYS: Final = 30
FILES_BESIDE_CONNECTIONS: Final = 64
"""Open files that a server needs besides one for each connection."""
FILES_MIN: Final = 4_096
"""The limit of open files that is enough when max.connections is not set."""
_CERTIFICATE_END: Final = "-----END CERTIFICATE-----"


class Level(StrEnum):
    """The level of a finding. Warnings and errors need an action."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """The result of a check, and what to do about it; "" for nothing."""

    level: Level
    check: str
    message: str
    advice: str = ""


class ServeCommand(NamedTuple):
    """The command line of a server to check. `directory` is None for none."""

    protocol: SecurityProtocol
    host: str
    advertised: str | None
    config: Path | None
    directory: Path | None


def check_configuration(settings: Settings, command: ServeCommand) -> Iterator[Finding]:
    """Yield findings about settings, files with secrets and limits."""
    yield Finding(Level.OK, "settings", "all settings are valid")
    if not is_loopback(command.host):
        yield from _check_exposure(settings, command)
    yield from _check_tls(settings, command)
    yield from _check_users(settings, command)
    if not settings.log_flush_sync:
        yield Finding(
            Level.WARNING,
            "durability",
            "log.flush.sync=false: a power failure loses acknowledged writes",
            "remove the setting, except for measurements",
        )
    yield from _check_secrets(settings, command)
    yield from _check_open_files(settings)


def _check_exposure(settings: Settings, command: ServeCommand) -> Iterator[Finding]:
    """Yield findings about a server that other machines can connect to."""
    where = command.host or "every address"
    if command.advertised is None and command.host in {"", "0.0.0.0", "::"}:  # noqa: S104
        yield Finding(
            Level.WARNING,
            "advertised",
            f"the server listens on {where} and advertises 127.0.0.1, which clients on "
            "other machines cannot connect to",
            "add --advertised with the name of this machine",
        )
    if settings.authorizer == "allow-all":
        yield Finding(
            Level.ERROR,
            "authorizer",
            f"authorizer=allow-all: every client that can connect to {where} may do "
            "everything",
            "set authorizer=acl and super.users, or listen on 127.0.0.1",
        )
    elif not settings.super_users and not _count(command, EntryKind.ACL):
        yield Finding(
            Level.ERROR,
            "authorizer",
            "ACLs are enforced, and there are neither super users nor ACLs: no client "
            "may do anything",
            "set super.users, for example --set super.users=User:admin",
        )
    if command.protocol is SecurityProtocol.PLAINTEXT:
        yield Finding(
            Level.WARNING,
            "encryption",
            f"clients of {where} are not authenticated, and nothing is encrypted",
            "listen with SASL_SSL or SSL (docs/security.md)",
        )
    elif (
        command.protocol is SecurityProtocol.SASL_PLAINTEXT
        and "PLAIN" in settings.sasl_enabled_mechanisms
    ):
        yield Finding(
            Level.ERROR,
            "encryption",
            "PLAIN without TLS: passwords cross the network in clear text",
            "listen with SASL_SSL, or enable only SCRAM mechanisms",
        )


def _check_tls(settings: Settings, command: ServeCommand) -> Iterator[Finding]:
    if not command.protocol.has_tls:
        return
    try:
        make_tls_context(settings, client_certificates=not command.protocol.has_sasl)
        keystore = Path(settings.ssl_keystore_location).read_text("latin-1")
        ends = _certificate_end(keystore)
    except (SettingError, OSError, ValueError) as error:
        yield Finding(Level.ERROR, "tls", str(error), "correct the ssl settings")
        return
    left = ends - datetime.now(UTC)
    what = f"the server's certificate is valid until {ends:%Y-%m-%d}"
    if left < timedelta(0):
        yield Finding(Level.ERROR, "tls", f"{what}: it has expired", "renew it")
    elif left < timedelta(days=CERTIFICATE_DAYS):
        yield Finding(
            Level.WARNING, "tls", f"{what}: {left.days} days left", "renew it"
        )
    else:
        yield Finding(Level.OK, "tls", what)


def _certificate_end(pem: str) -> datetime:
    """Return the end of the first certificate's validity."""
    from asn1crypto.x509 import Certificate

    start = pem.index("-----BEGIN CERTIFICATE-----")
    end = pem.index(_CERTIFICATE_END, start) + len(_CERTIFICATE_END)
    certificate = Certificate.load(ssl.PEM_cert_to_DER_cert(pem[start:end]))
    ends: datetime = certificate["tbs_certificate"]["validity"]["not_after"].native
    return ends


def _check_users(settings: Settings, command: ServeCommand) -> Iterator[Finding]:
    if not command.protocol.has_sasl:
        return
    in_file = 0
    if settings.sasl_users_file:
        try:
            in_file = len(read_users_file(Path(settings.sasl_users_file)))
        except SettingError as error:
            yield Finding(Level.ERROR, "users", str(error), "correct the users file")
            return
    if in_file or _count(command, EntryKind.SCRAM_CREDENTIAL):
        yield Finding(Level.OK, "users", "there are SASL users")
        return
    yield Finding(
        Level.ERROR,
        "users",
        "there are no SASL users, so no client can authenticate",
        "coterie users add NAME --data DIR, or set sasl.users.file",
    )


def _check_secrets(settings: Settings, command: ServeCommand) -> Iterator[Finding]:
    if sys.platform == "win32":  # files have no modes
        message = "access of other users to secrets and data is not checked on Windows"
        yield Finding(Level.NOTE, "secrets", message)
        return
    found = list(open_secrets(settings, command.config, command.directory))
    for each in found:
        message = f"other users can read {each.path}, which has {each.content}"
        advice = f"{each.remedy} {each.path}"
        yield Finding(Level.WARNING, "secrets", message, advice)
    if not found:
        yield Finding(Level.OK, "secrets", "no other user can read secrets or data")


def _check_open_files(settings: Settings) -> Iterator[Finding]:
    limit = portable_os.open_files_limit()
    if limit is None:
        limit = INT32_MAX
    wanted = settings.max_connections + FILES_BESIDE_CONNECTIONS
    if settings.max_connections == INT32_MAX:
        wanted = FILES_MIN
    if limit < wanted:
        yield Finding(
            Level.WARNING,
            "open files",
            f"this shell's limit of open files is {limit}, for at most "
            f"{max(0, limit - FILES_BESIDE_CONNECTIONS)} connections",
            f"ulimit -n {wanted} (LimitNOFILE= in systemd), or set max.connections",
        )
    else:
        yield Finding(Level.OK, "open files", f"the limit of open files is {limit}")


# The data directory.


def check_directory(directory: Path, *, is_full: bool) -> Iterator[Finding]:
    """Yield findings about a data directory.

    `is_full` checks every page of a store of any size.
    """
    if not directory.exists():
        yield Finding(
            Level.NOTE, "data", f"{directory} does not exist; a server creates it"
        )
        return
    if not directory.is_dir() or not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            Level.ERROR,
            "data",
            f"this user cannot write to {directory}",
            "run as the server's user, or change the owner of the directory",
        )
        return
    yield _check_space(directory)
    store = directory / MANIFEST_NAME
    if not store.exists():
        yield Finding(Level.NOTE, "store", f"{directory} has no store yet")
        return
    is_used = _is_locked(directory)
    if is_used:
        yield Finding(Level.OK, "lock", f"a server uses {directory}")
    elif store.with_name(f"{MANIFEST_NAME}-wal").exists():
        yield Finding(
            Level.NOTE,
            "lock",
            "the last server did not stop cleanly; the next one recovers every "
            "acknowledged write",
        )
    else:
        yield Finding(
            Level.OK, "lock", "no server is running, and the last one stopped"
        )
    yield from _check_store(StoreFile(directory), is_full=is_full)


def _check_space(directory: Path) -> Finding:
    free = shutil.disk_usage(directory).free
    text = f"{free / (1 << 30):.1f} GiB are free"
    level = Level.OK
    if free < FREE_WARNING_BYTES:
        level = Level.ERROR if free < FREE_ERROR_BYTES else Level.WARNING
    advice = "" if level is Level.OK else "free space, or lower log.retention.bytes"
    return Finding(level, "disk", text, advice)


def _is_locked(directory: Path) -> bool:
    """Return whether a server holds the lock on a data directory."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | portable_os.BINARY)
    except OSError:
        return False
    try:
        return not portable_os.lock_file(descriptor, shared=True)
    finally:
        os.close(descriptor)


def _check_store(file: StoreFile, *, is_full: bool) -> Iterator[Finding]:
    damaged = "restore the directory from a backup, or start with another --data"
    try:
        if file.path.stat().st_size > CHECKED_BYTES_MAX and not is_full:
            message = f"{file.path} is large; its pages were not checked"
            yield Finding(Level.NOTE, "store", message, "check them with --full")
        else:
            [(result,)] = file.query("PRAGMA quick_check(1)")
            if result != "ok":
                message = f"{file.path} is damaged: {result}"
                yield Finding(Level.ERROR, "store", message, damaged)
                return
            message = f"{file.path} is readable, version {STORE_VERSION}"
            yield Finding(Level.OK, "store", message)
        yield _check_segments(file, is_full=is_full)
    except SettingError as error:
        advice = "name another --data, or start the version that wrote it"
        yield Finding(Level.ERROR, "store", str(error), advice)
    except LogError as error:
        yield Finding(Level.ERROR, "store", str(error), damaged)


def _check_segments(file: StoreFile, *, is_full: bool) -> Finding:
    """Check the sizes of all segments; with `is_full` also each batch in them.

    Raises LogError.
    """
    view = JournalView(file)
    count = size = 0
    for part in view.partitions.values():
        for segment in part.segments:
            path = segment_path(
                partition_directory(file.directory, part.partition), segment
            )
            try:
                actual = path.stat().st_size
                if actual < segment.size_bytes:
                    raise LogError(
                        f"{path} is damaged: it has {actual} bytes, and had"
                        f" {segment.size_bytes} when it was written"
                    )
                if is_full:
                    _check_batches(path, segment.size_bytes)
            except FileNotFoundError:
                if not _is_locked(file.directory):
                    raise LogError(f"{path} is missing") from None
            count, size = count + 1, size + segment.size_bytes
    text = f"{count:,} segments with {size:,} bytes, and {view.frames:,} writes"
    return Finding(Level.OK, "segments", f"{text} after them in the journals")


def _check_batches(path: Path, size: int) -> None:
    """Check the batches in a segment. Raises LogError."""
    data = path.read_bytes()[:size]
    at = 0
    while at < size:
        try:
            end = at + read_header(data, at).size_bytes
        except MalformedFrame:
            end = at
        if end == at or not crc_matches(memoryview(data)[at:end]):
            raise LogError(f"{path} is damaged: the batch at byte {at}")
        at = end


def _count(command: ServeCommand, kind: EntryKind) -> int:
    """Return the number of entries of a kind in the store; 0 if it cannot be read."""
    if command.directory is None:
        return 0
    try:
        return len(JournalView(StoreFile(command.directory)).items(space_of(kind)))
    except (SettingError, LogError):
        return 0
