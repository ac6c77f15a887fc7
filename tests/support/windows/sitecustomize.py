"""Makes Coterie's code see Windows on Linux, in this process and in those it starts.

Python imports this module at its start when this directory is on PYTHONPATH. Only code
in src/coterie is affected, also by what other code has imported before:

- `sys.platform` is "win32" and `os.name` is "nt";
- what `os`, `signal`, `socket`, `time` and event loops do not have on Windows is
  missing, and modules such as `fcntl` and uvloop cannot be imported; `msvcrt` can;
- directories cannot be opened, files that this process has open cannot be deleted or
  renamed, names with characters such as ":" are refused;
- a descriptor opened without O_BINARY is refused: Windows would translate newlines;
- text files opened without an encoding are a warning.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

SOURCE = str(Path(__file__).parents[3] / "src" / "coterie") + os.sep


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES = words(
    "curses fcntl grp posix pty pwd readline resource syslog termios tty uvloop"
)
OS = words("""
    O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC
    POSIX_FADV_DONTNEED chown chroot confstr eventfd fchdir fchmod fchown fdatasync fork
    forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority
    getuid initgroups killpg lchown lockf mkfifo mknod nice openpty pathconf pidfd_open
    pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev readv
    register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setpgid
    setpriority setsid setuid statvfs sync sysconf tcgetpgrp ttyname uname wait wait3
    wait4 writev
""")
SIGNALS = words("""
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGTTIN
    SIGTTOU SIGUSR1 SIGUSR2 SIGWINCH alarm pause pthread_kill pthread_sigmask setitimer
    siginterrupt sigpending sigwait
""")
SOCKETS = words("AF_UNIX SO_REUSEPORT")
CLOCKS = words("""
    CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_REALTIME clock_gettime clock_gettime_ns tzset
""")
LOOPS = words("""
    add_reader add_signal_handler add_writer create_unix_connection create_unix_server
    remove_reader remove_signal_handler remove_writer
""")
O_BINARY = 1 << 30
ILLEGAL = frozenset('<>:"|?*\\')


def is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SOURCE)


def is_called_by_own() -> bool:
    """Return whether Coterie's code called the function that calls this one."""
    try:
        return is_own(sys._getframe(2))
    except ValueError:  # the interpreter called it
        return False


def callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def hide(
    module: ModuleType, names: frozenset[str], instead: dict[str, object] | None = None
) -> None:
    """Hide names of a module from Coterie's code, and give others another value."""
    values = instead or {}
    concerned = names | values.keys()

    class OnWindows(ModuleType):
        """A module as Coterie's code finds it on Windows."""

        def __getattribute__(self, name: str) -> Any:
            if name in concerned and is_called_by_own():
                if name in values:
                    return values[name]
                raise AttributeError(f"{module.__name__}.{name}: not on Windows")
            return super().__getattribute__(name)

    module.__class__ = OnWindows


def open_binary(path: Any, flags: int, mode: int = 0o777) -> int:
    if os.path.isdir(path):  # noqa: PTH112
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    assert flags & O_BINARY, f"{path} is opened without O_BINARY"
    return os.open(path, flags & ~O_BINARY, mode)


def locking_module() -> ModuleType:
    """Return a module `msvcrt` with its locks."""
    import fcntl

    def locking(descriptor: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    module = ModuleType("msvcrt")
    vars(module).update(LK_NBLCK=2, locking=locking)
    return module


def limit_loops() -> None:
    from asyncio.unix_events import _UnixSelectorEventLoop

    for name in LOOPS:
        real = getattr(_UnixSelectorEventLoop, name)
        setattr(_UnixSelectorEventLoop, name, _refused(name, real))


def _refused(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_called_by_own():
            raise NotImplementedError(name)
        return real(*args, **kwargs)

    return call


def limit_imports() -> None:
    msvcrt = locking_module()
    real = builtins.__import__
    pending = [limit_loops]

    def import_module(name: str, *args: Any, **kwargs: Any) -> Any:
        if is_called_by_own():
            if name.partition(".")[0] in MODULES:
                raise ModuleNotFoundError(f"{name}: not on Windows", name=name)
            if name == "msvcrt":
                return msvcrt
        module = real(name, *args, **kwargs)
        if pending and "asyncio.unix_events" in sys.modules and "asyncio" in name:
            pending.pop()()
        return module

    builtins.__import__ = import_module


def check_files(event: str, args: tuple[Any, ...]) -> None:
    """Refuse what Windows refuses: an audit hook."""
    if event not in {"open", "os.mkdir", "os.remove", "os.rename"}:
        return
    if not any(is_own(frame) for frame in callers()):
        return
    path = args[0]
    if not isinstance(path, str | bytes | os.PathLike):
        return
    path = Path(os.fsdecode(path))
    if event in {"open", "os.mkdir"}:
        if ILLEGAL & set(str(path)):
            raise OSError(errno.EINVAL, "not a name of a file on Windows", str(path))
    elif str(path.absolute()) in open_files():
        raise PermissionError(errno.EACCES, "the file is open", str(path))


def open_files() -> set[str]:
    found = set()
    for each in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            found.add(os.readlink(f"/proc/self/fd/{each}"))  # noqa: PTH115
        except OSError:
            continue
    return found


hide(sys, frozenset(), {"platform": "win32"})
hide(os, OS, {"name": "nt", "O_BINARY": O_BINARY, "open": open_binary})
hide(signal, SIGNALS, {"SIGBREAK": signal.SIGQUIT})
hide(socket, SOCKETS)
hide(time, CLOCKS)
limit_imports()
sys.addaudithook(check_files)
