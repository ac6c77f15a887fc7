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
from functools import cached_property
from types import FrameType
from typing import Any

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.log_offsets import LATEST, LogOffsetInfo
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.errors import ApiError, ClientError, ConnectionLost
from coterie.loop_thread import LoopThread, _Job
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


def families(cls: type[object]) -> dict[str, Any]:
    return {
        name: part
        for name, part in vars(cls).items()
        if isinstance(part, cached_property)
    }


def public_methods(cls: type[object]) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_families() -> None:
    assert families(AdminClient).keys() == families(SyncAdmin).keys()


@pytest.mark.parametrize("name", sorted(families(AdminClient)))
def test_every_coroutine_of_a_family_has_a_blocking_method(name: str) -> None:
    with closing(SyncAdmin("127.0.0.1:1")) as admin:
        blocking_family = getattr(admin, name)
        family = getattr(admin._client, name)
        assert vars(blocking_family) == {"_family": family, "_thread": admin._thread}
    awaited, waiting = (
        public_methods(type(family)),
        public_methods(type(blocking_family)),
    )
    assert awaited.keys() == waiting.keys()
    for call, method in waiting.items():
        assert inspect.unwrap(method) is awaited[call], call
        assert inspect.iscoroutinefunction(awaited[call]), call
        assert not inspect.iscoroutinefunction(method), call
        assert inspect.signature(method) == inspect.signature(awaited[call]), call
        assert method.__doc__, call


def test_a_method_forwards_every_argument_and_returns_the_result() -> None:
    class Numbers(Family):
        async def call(self, first: int, *, second: str) -> tuple[object, int, str]:
            return self, first, second

    class SyncNumbers(SyncFamily[Numbers]):
        call = blocking(Numbers.call)

    with SyncAdmin("127.0.0.1:1") as admin:
        family = Numbers(admin._client.cluster)
        numbers = SyncNumbers(family, admin._thread)
        assert numbers.call(1, second="b") == (family, 1, "b")


def test_calls_block_until_their_result(admin: SyncAdmin) -> None:
    assert len(admin.brokers.describe().nodes) == 2
    admin.topics.create([NewTopic("t", 2, 1)]).all()
    wanted = {TopicPartition("t", each): LATEST for each in (0, 1)}
    told: list[tuple[int, int]] = []
    found = admin.logs.list_offsets(wanted, progress=lambda *done: told.append(done))
    assert found.all() == dict.fromkeys(wanted, LogOffsetInfo(0, -1, 0))
    assert told[-1] == (2, 2)


def test_errors_are_those_of_the_admin_client(admin: SyncAdmin) -> None:
    with pytest.raises(ApiError):
        admin.topics.delete(["gone"]).all()
    with SyncAdmin("127.0.0.1:1", ONCE) as other, pytest.raises(ConnectionLost):
        other.brokers.describe()
    with pytest.raises(ClientError, match="is not an address"):
        SyncAdmin("nowhere")


def test_calls_are_accepted_from_any_thread(admin: SyncAdmin) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(admin.brokers.describe) for _ in range(32)]
        found = {future.result(WAIT_S) for future in asked}
    assert len(found) == 1


def test_a_progress_callback_cannot_call_its_own_client(admin: SyncAdmin) -> None:
    admin.topics.create([NewTopic("t", 1, 1)]).all()

    def progress(done: int, of: int) -> None:
        admin.brokers.describe()

    with pytest.raises(ClientError, match="callback"):
        admin.logs.list_offsets({TopicPartition("t", 0): LATEST}, progress=progress)


def test_a_closed_client_raises_and_can_be_closed_again() -> None:
    admin = SyncAdmin("127.0.0.1:1", OPTIONS)
    admin.close()
    admin.close()
    with pytest.raises(ClientError, match="closed"):
        admin.brokers.describe()


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
