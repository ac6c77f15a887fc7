"""The blocking admin client, called from several threads."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from types import FrameType
from typing import Any

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.log_offsets import LATEST, LogOffsetInfo
from coterie.client.admin.topics import NewTopic
from coterie.client.loop_thread import LoopThread, _Job
from coterie.client.sync import SyncAdmin, _blocking
from coterie.errors import ApiError, ClientError, ConnectionLost
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.admin.scripted_coordinators import ONCE
from tests.client.scripted_broker import OPTIONS

WAIT_S = 120.0


@pytest.fixture
def admin() -> Iterator[SyncAdmin]:
    with ThreadServer(node_count=2) as server:
        host, port = server.addresses[0]
        with SyncAdmin(f"{host}:{port}", OPTIONS) as admin:
            yield admin


def public_methods(cls: type[object]) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_coroutine_of_the_admin_client_has_a_blocking_method() -> None:
    awaited, waiting = public_methods(AdminClient), public_methods(SyncAdmin)
    assert awaited.keys() == waiting.keys()
    for name, method in waiting.items():
        assert inspect.iscoroutinefunction(awaited[name]), name
        assert not inspect.iscoroutinefunction(method), name
        assert inspect.signature(method) == inspect.signature(awaited[name]), name
        assert method.__doc__, name


@pytest.mark.parametrize("name", sorted(public_methods(SyncAdmin).keys() - {"close"}))
def test_every_method_calls_the_coroutine_of_the_same_name(name: str) -> None:
    assert inspect.unwrap(getattr(SyncAdmin, name)) is getattr(AdminClient, name)


def test_a_method_forwards_every_argument_and_returns_the_result() -> None:
    async def call(
        admin: AdminClient, first: int, *, second: str
    ) -> tuple[AdminClient, int, str]:
        return admin, first, second

    with SyncAdmin("127.0.0.1:1") as admin:
        assert _blocking(call)(admin, 1, second="b") == (admin._admin, 1, "b")


def test_calls_block_until_their_result(admin: SyncAdmin) -> None:
    assert len(admin.describe_cluster().nodes) == 2
    admin.create_topics([NewTopic("t", 2, 1)]).all()
    wanted = {TopicPartition("t", each): LATEST for each in (0, 1)}
    told: list[tuple[int, int]] = []
    found = admin.list_offsets(wanted, progress=lambda *done: told.append(done))
    assert found.all() == dict.fromkeys(wanted, LogOffsetInfo(0, -1, 0))
    assert told[-1] == (2, 2)


def test_errors_are_those_of_the_admin_client(admin: SyncAdmin) -> None:
    with pytest.raises(ApiError):
        admin.delete_topics(["gone"]).all()
    with SyncAdmin("127.0.0.1:1", ONCE) as other, pytest.raises(ConnectionLost):
        other.describe_cluster()
    with pytest.raises(ClientError, match="is not an address"):
        SyncAdmin("nowhere")


def test_calls_are_accepted_from_any_thread(admin: SyncAdmin) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(admin.describe_cluster) for _ in range(32)]
        found = {future.result(WAIT_S) for future in asked}
    assert len(found) == 1


def test_a_progress_callback_cannot_call_its_own_client(admin: SyncAdmin) -> None:
    admin.create_topics([NewTopic("t", 1, 1)]).all()

    def progress(done: int, of: int) -> None:
        admin.describe_cluster()

    with pytest.raises(BaseExceptionGroup) as caught:
        admin.list_offsets({TopicPartition("t", 0): LATEST}, progress=progress)
    assert caught.group_contains(ClientError, match="callback")


def test_a_closed_client_raises_and_can_be_closed_again() -> None:
    admin = SyncAdmin("127.0.0.1:1", OPTIONS)
    admin.close()
    admin.close()
    with pytest.raises(ClientError, match="closed"):
        admin.describe_cluster()


async def forever(begun: threading.Event) -> None:
    """Set `begun`, then wait forever."""
    begun.set()
    await asyncio.Event().wait()


def test_close_ends_pending_calls() -> None:
    thread, begun = LoopThread(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: thread.wait(forever(begun)))
        assert begun.wait(WAIT_S)
        thread.close()
        with pytest.raises(ConnectionLost, match="closed"):
            waiting.result(WAIT_S)


@pytest.mark.asyncio
async def test_a_job_cancelled_before_its_start_does_not_start() -> None:
    begun = threading.Event()
    job = _Job(forever(begun))
    job.cancel()
    job.start()
    await asyncio.sleep(0)
    assert not begun.is_set()


def test_ctrl_c_cancels_only_the_waiting_call() -> None:
    thread, begun, ended = LoopThread(), threading.Event(), threading.Event()

    async def call() -> None:
        try:
            await forever(begun)
        finally:
            ended.set()

    def interrupt() -> None:
        assert begun.wait(WAIT_S)
        waiting = threading.main_thread().ident
        assert waiting is not None
        signal.pthread_kill(waiting, signal.SIGINT)

    async def still_there() -> int:
        return 7

    with ThreadPoolExecutor(1) as pool:
        pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            thread.wait(call())
    assert ended.wait(WAIT_S)
    assert thread.wait(still_there()) == 7
    thread.close()


# The moment may be in a callback of a weak reference, which cannot raise.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_leaves_the_event_loop_running() -> None:
    thread, moment = LoopThread(), 0
    interrupt = InterruptAt(0)
    while interrupt.left <= 0:
        moment += 1
        interrupt = InterruptAt(moment)
        call = asyncio.sleep(0)
        with closing(call), suppress(KeyboardInterrupt), interrupt:
            thread.wait(call)
        runs = threading.Event()
        thread._loop.call_soon_threadsafe(runs.set)
        assert runs.wait(WAIT_S), f"interrupted at moment {moment}"
    assert moment > 5
    thread.close()


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th moment when CPython may handle a signal: a
    Python function begins or a C function returns."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __enter__(self) -> None:
        sys.setprofile(self._profile)

    def __exit__(self, *raised: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"}:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
