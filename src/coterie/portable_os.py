"""Calls of the operating system that differ between Linux, macOS and Windows.

Other modules use these in place of `os.pwrite`, `fcntl` and the like, which Windows
does not have. Each is chosen once, at import. docs/support.md says what was tested.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import Server

if sys.platform == "win32":
    import msvcrt

    BINARY: Final = os.O_BINARY
    SYNCABLE: Final = os.O_RDWR
    STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK)
    # The threads of a process share the position of a descriptor.
    _POSITION: Final = threading.Lock()

    def pread(descriptor: int, size: int, at: int, /) -> bytes:
        with _POSITION:
            os.lseek(descriptor, at, os.SEEK_SET)
            return os.read(descriptor, size)

    def pwrite(descriptor: int, data: bytes, at: int, /) -> int:
        with _POSITION:
            os.lseek(descriptor, at, os.SEEK_SET)
            return os.write(descriptor, data)

    def pwritev(descriptor: int, pieces: Sequence[bytes], at: int, /) -> int:
        return pwrite(descriptor, b"".join(pieces), at)

    def lock_file(descriptor: int, *, shared: bool = False) -> bool:
        """Lock a file until it is closed; return False if another process holds the
        lock. A shared lock excludes exclusive ones only, where the system has it."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def open_files_limit() -> int | None:
        """Return how many files this process may open; None for no limit."""
        return None

else:
    import fcntl
    import resource

    BINARY: Final = 0
    """The flag of `os.open` without which Windows translates newlines."""
    SYNCABLE: Final = os.O_RDONLY
    """The access for `os.open` that a sync needs."""
    STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
    """The signals that stop a server; on Windows Ctrl-Break as well."""

    pread = os.pread
    pwrite = os.pwrite
    pwritev = os.pwritev

    def lock_file(descriptor: int, *, shared: bool = False) -> bool:
        """Lock a file until it is closed; return False if another process holds the
        lock. A shared lock excludes exclusive ones only, where the system has it."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def open_files_limit() -> int | None:
        """Return how many files this process may open; None for no limit."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if limit == resource.RLIM_INFINITY else limit


if sys.platform == "linux":
    fdatasync = os.fdatasync

    def start_writing(descriptor: int, at: int, size: int) -> None:
        """Let the system begin to write a part of a file to the disk."""
        os.posix_fadvise(descriptor, at, size, os.POSIX_FADV_DONTNEED)

else:
    fdatasync = os.fsync

    def start_writing(descriptor: int, at: int, size: int) -> None:
        """Let the system begin to write a part of a file to the disk."""


def sync_directory(directory: Path) -> None:
    """Sync a directory: otherwise a new file may be lost at a power failure.

    Windows cannot open directories; NTFS has a journal of its own for them.
    """
    if sys.platform != "win32":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_file(path: Path) -> None:
    """Sync a file, with what other processes have written to it."""
    descriptor = os.open(path, SYNCABLE | BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def handle_signals(
    numbers: Iterable[signal.Signals], on_signal: Callable[[int], object]
) -> Iterator[None]:
    """Call a function in the running loop for each of the signals.

    The loops of Windows have no signal handlers. There, Python's handler wakes the
    loop. Threads other than the main thread get no signals, and nothing is called.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                try:
                    loop.add_signal_handler(number, on_signal, number)
                except NotImplementedError:
                    before = signal.signal(
                        number,
                        lambda which, _: loop.call_soon_threadsafe(on_signal, which),
                    )
                    undo.callback(signal.signal, number, before)
                else:
                    undo.callback(loop.remove_signal_handler, number)
        yield


async def stop_accepting(servers: Iterable[Server]) -> None:
    """Accept no more sockets, and let those that are accepted become connections.

    asyncio makes a transport of an accepted socket in a task. If the server is closed
    before that task runs, the task fails and nothing closes the socket. The loop of
    Windows has no readers, and makes transports without a task.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            with suppress(NotImplementedError):
                loop.remove_reader(listening.fileno())
    for _ in range(2):  # the task, then `connection_made`
        await asyncio.sleep(0)
