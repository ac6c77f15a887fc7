"""The admin client without an event loop: the same calls, from any thread."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.offset_values import LATEST, LogOffsetFound
from coterie.client.admin.topic_values import NewTopic
from coterie.client.loop_thread import LoopThread, _Errand
from coterie.client.sync import SyncAdmin
from coterie.errors import ApiError, ClientError, ConnectionLost
from coterie.types import TopicPartition
from tests.client.scripted import BRIEF, OPTIONS
from tests.server.harness import ThreadServer

WAIT_S = 30


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


def test_every_coroutine_of_the_admin_client_is_there_with_its_signature() -> None:
    awaited, waiting = public_methods(AdminClient), public_methods(SyncAdmin)
    assert awaited.keys() == waiting.keys()
    for name, method in waiting.items():
        assert inspect.iscoroutinefunction(awaited[name]), name
        assert not inspect.iscoroutinefunction(method), name
        assert inspect.signature(method) == inspect.signature(awaited[name]), name
        assert method.__doc__, name


class Recorder:
    """Stands for an AdminClient, and gives back what it is asked."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: object, **kwargs: object) -> object:
            return name, args, kwargs

        return call


@pytest.mark.parametrize("name", sorted(public_methods(SyncAdmin).keys() - {"close"}))
def test_every_call_is_handed_on_with_all_its_arguments(name: str) -> None:
    with SyncAdmin("127.0.0.1:1") as admin:
        real, admin._admin = admin._admin, cast("AdminClient", Recorder())
        method = getattr(admin, name)
        parameters = inspect.signature(method).parameters.values()
        given = {each.name: object() for each in parameters}
        _, args, kwargs = method(**given)
        asked = inspect.signature(getattr(real, name)).bind(*args, **kwargs)
        assert asked.arguments == given
        admin._admin = real


def test_calls_wait_for_their_answers(admin: SyncAdmin) -> None:
    assert len(admin.describe_cluster().nodes) == 2
    admin.create_topics([NewTopic("t", 2, 1)]).all()
    wanted = {TopicPartition("t", each): LATEST for each in (0, 1)}
    told: list[tuple[int, int]] = []
    found = admin.list_offsets(wanted, progress=lambda *done: told.append(done))
    assert found.all() == dict.fromkeys(wanted, LogOffsetFound(0, -1, 0))
    assert told[-1] == (2, 2)


def test_errors_are_those_of_the_admin_client(admin: SyncAdmin) -> None:
    with pytest.raises(ApiError):
        admin.delete_topics(["gone"]).all()
    with SyncAdmin("127.0.0.1:1", BRIEF) as other, pytest.raises(ConnectionLost):
        other.describe_cluster()
    with pytest.raises(ClientError, match="is no address"):
        SyncAdmin("nowhere")


def test_any_thread_may_call(admin: SyncAdmin) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(admin.describe_cluster) for _ in range(32)]
        found = {future.result(WAIT_S) for future in asked}
    assert len(found) == 1


def test_a_progress_that_calls_its_own_client_is_told_so(admin: SyncAdmin) -> None:
    admin.create_topics([NewTopic("t", 1, 1)]).all()

    def progress(done: int, of: int) -> None:
        admin.describe_cluster()

    with pytest.raises(BaseExceptionGroup) as caught:
        admin.list_offsets({TopicPartition("t", 0): LATEST}, progress=progress)
    assert caught.group_contains(ClientError, match="callback")


def test_a_closed_client_says_so_and_may_be_closed_twice() -> None:
    admin = SyncAdmin("127.0.0.1:1", OPTIONS)
    admin.close()
    admin.close()
    with pytest.raises(ClientError, match="closed"):
        admin.describe_cluster()


async def forever(begun: threading.Event) -> None:
    """Say that it has begun, and wait for what never comes."""
    begun.set()
    await asyncio.Event().wait()


def test_who_waits_when_the_client_is_closed_waits_no_more() -> None:
    thread, begun = LoopThread(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: thread.wait(forever(begun)))
        assert begun.wait(WAIT_S)
        thread.close()
        with pytest.raises(ConnectionLost, match="closed"):
            waiting.result(WAIT_S)


@pytest.mark.asyncio
async def test_a_call_that_is_taken_back_before_it_begins_does_not_begin() -> None:
    begun = threading.Event()
    errand = _Errand(forever(begun))
    errand.take_back()
    with pytest.raises(asyncio.CancelledError):
        await errand.run()
    assert not begun.is_set()


@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_ends_the_call_that_waits_and_no_more() -> None:
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
