"""The lines of stdin, as they arrive."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Final

from coterie import client
from coterie.errors import ClientError

_BLOCK_BYTES: Final = 64 * 1024
_BLOCKS_MAX: Final = 16
"""Blocks of stdin that wait while records are sent."""
_CHUNK_BYTES_MAX: Final = 1024 * 1024
_LINES_MAX: Final = 10_000
"""Records of one call of the producer."""
_RECORD_BYTES_MAX: Final = 64 * 1024 * 1024


async def read_chunks(
    progress: client.Progress, *, is_whole: bool
) -> AsyncIterator[list[bytes]]:
    """Yield the lines of stdin as soon as there are any, many at a time when records
    are sent more slowly than they arrive; with `is_whole` all of it at its end.

    A byte order mark before the first line is removed. Raises ClientError for a line
    of more than 64 MiB, and for UTF-16.
    """
    size = _file_size()
    done = 0
    rest = b""
    is_first = True
    async for data in _blocks():
        done += len(data)
        if size:
            progress(done, size)
        if is_whole:
            rest += data
        else:
            *lines, rest = (rest + data).split(b"\n")
            if lines and is_first:
                lines[0], is_first = _without_mark(lines[0]), False
            for position in range(0, len(lines), _LINES_MAX):
                yield [_line(each) for each in lines[position : position + _LINES_MAX]]
        if len(rest) > _RECORD_BYTES_MAX:
            raise ClientError("stdin has a record of more than 64 MiB")
    if rest and is_whole:
        yield [rest]
    elif rest:
        yield [_line(_without_mark(rest) if is_first else rest)]


def _without_mark(line: bytes) -> bytes:
    # A value may be any bytes; a line of UTF-16 has zeros, too.
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in line:
        raise ClientError("stdin is UTF-16: lines must be UTF-8")
    return line.removeprefix(codecs.BOM_UTF8)


def _line(text: bytes) -> bytes:
    return text.removesuffix(b"\r")


def _file_size() -> int:
    """Return the size of a file that is stdin; 0 for pipes and terminals."""
    try:
        return os.fstat(sys.stdin.fileno()).st_size
    except (OSError, ValueError):
        return 0


async def _blocks() -> AsyncIterator[bytes]:
    """Yield the bytes of stdin: what has arrived since the last block, at most 1 MiB.

    Raises ClientError when stdin cannot be read.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    slots = threading.Semaphore(_BLOCKS_MAX)

    read = _stdin_reader()

    def read_all() -> None:
        for each in _read_stdin(read, slots):
            try:
                loop.call_soon_threadsafe(queue.put_nowait, each)
            except RuntimeError:  # the loop has ended before stdin
                return

    # A daemon thread: a read of a terminal cannot be cancelled, and the command ends
    # without it.
    threading.Thread(target=read_all, name="stdin", daemon=True).start()
    while True:
        blocks = [await queue.get()]
        while not queue.empty() and len(blocks) * _BLOCK_BYTES < _CHUNK_BYTES_MAX:
            blocks.append(queue.get_nowait())
        data = b""
        for each in blocks:
            slots.release()
            if isinstance(each, OSError):
                raise ClientError(f"cannot read stdin: {each.strerror}")
            data += each
        if data:
            yield data
        if not blocks[-1]:
            return


def _read_stdin(
    read: Callable[[int], bytes], slots: threading.Semaphore
) -> Iterator[bytes | OSError]:
    """Yield blocks of stdin, at last an empty one or the error of a read."""
    while True:
        slots.acquire()
        try:
            data = read(_BLOCK_BYTES)
        except OSError as error:
            yield error
            return
        except ValueError:  # stdin was closed
            data = b""
        yield data
        if not data:
            return


def _stdin_reader() -> Callable[[int], bytes]:
    """Return a function that reads what has arrived on stdin.

    It does not use the buffer of `sys.stdin`, whose lock Python needs at exit.
    """
    try:
        return partial(os.read, sys.stdin.fileno())
    except (OSError, ValueError):  # replaced by a stream in memory
        return sys.stdin.buffer.read
