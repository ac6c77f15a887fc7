"""Calls that differ between operating systems; tests/test_windows.py runs the rest."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.portable_os import STOP_SIGNALS, handle_signals, lock_file, sync_file


class WindowsLoop(asyncio.SelectorEventLoop):
    """A loop without signal handlers, as those of Windows."""

    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, WindowsLoop])
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_calls_the_function_in_the_loop(
    loop: Callable[[], asyncio.AbstractEventLoop], number: signal.Signals
) -> None:
    async def wait_for_signal() -> tuple[int, int]:
        came: asyncio.Future[tuple[int, int]] = asyncio.Future()

        def on_signal(which: int) -> None:
            asyncio.get_running_loop()  # raises RuntimeError without one
            came.set_result((which, threading.get_ident()))

        with handle_signals([number], on_signal):
            signal.raise_signal(number)
            return await came

    before = signal.getsignal(number)
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(wait_for_signal()) == (number, threading.get_ident())
    assert signal.getsignal(number) == before


def test_threads_beside_the_main_thread_handle_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    inside: list[object] = []

    async def handle() -> None:
        with handle_signals([signal.SIGTERM], id):
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=asyncio.run, args=[handle()])
    thread.start()
    thread.join()
    assert inside == [before]


@pytest.mark.parametrize(
    ("held", "wanted", "is_locked"),
    [(False, False, False), (False, True, False), (True, True, True)],
)
def test_a_lock_excludes_others_unless_both_are_shared(
    tmp_path: Path, held: bool, wanted: bool, is_locked: bool
) -> None:
    first, second = [
        os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2)
    ]
    assert lock_file(first, shared=held)
    assert lock_file(second, shared=wanted) is is_locked
    os.close(first)
    assert lock_file(second)
    os.close(second)


def test_a_missing_file_is_not_created_to_sync_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_file(tmp_path / "none")
