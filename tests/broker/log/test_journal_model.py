"""The log with journals does what the log in memory does, also across crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import Log
from coterie.broker.log.memory import MemoryLog
from tests.broker.log.logs import OTHER, PARTITION, make_batch

PARTITIONS = (PARTITION, OTHER)
numbers = st.integers(0, 1_000)
steps = st.one_of(
    st.tuples(st.just("append"), st.booleans(), numbers),
    st.tuples(st.just("append"), st.booleans(), numbers),
    st.tuples(st.just("replace"), st.booleans(), numbers),
    st.tuples(st.just("truncate"), st.booleans(), numbers),
    st.tuples(st.just("delete"), st.booleans(), numbers),
    st.tuples(st.just("put"), st.booleans(), numbers),
    st.tuples(st.just("flush"), st.booleans(), numbers),
    st.tuples(st.just("abandon"), st.booleans(), numbers),
    st.tuples(st.just("checkpoint"), st.booleans(), numbers),
    st.tuples(st.just("crash"), st.booleans(), numbers),
    st.tuples(st.just("reopen"), st.booleans(), numbers),
)


class Both:
    """A log with journals, and one in memory that is its model."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "0"
        self.crashed: list[JournalLog] = []
        self.real = self._start()
        self.model = MemoryLog()
        for log in (self.real, self.model):
            log.create(PARTITION)
            log.flush()

    def step(self, name: str, is_other: bool, number: int) -> None:
        """Do the same in both logs."""
        where = PARTITIONS[is_other]
        if name in {"flush", "abandon", "checkpoint"}:
            for log in (self.real, self.model):
                _end(log, name)
        elif name in {"crash", "reopen"}:
            self._restart(is_crash=name == "crash")
        elif name == "put":
            value = b"%d" % number if number % 4 else None
            for log in (self.real, self.model):
                log.put("space", b"%d" % (number % 7), value)
        elif where not in self.model.partitions():
            if where not in self.model._parts:
                for log in (self.real, self.model):
                    log.create(where)
        else:
            self._change(name, is_other, number)

    def check(self) -> None:
        """Compare everything that can be read."""
        real, model = self.real, self.model
        assert sorted(real.partitions()) == sorted(model.partitions())
        assert list(real.items("space")) == list(model.items("space"))
        for key in (b"%d" % number for number in range(7)):
            assert real.get("space", key) == model.get("space", key)
        for where in model.partitions():
            assert real.bounds(where) == model.bounds(where)
            assert real.size_bytes(where) == model.size_bytes(where)
            headers = list(model.headers(where))
            assert list(real.headers(where)) == headers
            for offset in {0, *(each.last_offset for each in headers)}:
                for size in (0, 350, 1 << 20):
                    expected = model.read(where, offset, size)
                    assert real.read(where, offset, size) == expected
            for time_ms in range(0, 1_000, 100):
                expected_header = model.find_timestamp(where, time_ms, 2)
                assert real.find_timestamp(where, time_ms, 2) == expected_header

    def close(self) -> None:
        for log in (self.real, *self.crashed):
            log.close()

    def _change(self, name: str, is_other: bool, number: int) -> None:
        where = PARTITIONS[is_other]
        bounds = self.model.bounds(where)
        headers = list(self.model.headers(where))
        if name == "append":
            base = bounds.next_offset
            batch = make_batch(base, base + number % 3, number, 70 + number % 200)
            for log in (self.real, self.model):
                log.append(where, batch)
        elif name == "truncate":
            before = number % (bounds.flushed_offset + 1)
            for log in (self.real, self.model):
                log.truncate(where, before)
        elif name == "replace" and headers:
            header = headers[number % len(headers)]
            base, time_ms = header.base_offset, header.max_timestamp_ms
            smaller = make_batch(base, header.last_offset, time_ms, 61 + number % 9)
            for log in (self.real, self.model):
                log.replace(where, base, smaller if number % 2 else None)
        elif name == "delete":
            for log in (self.real, self.model):
                log.delete(where)

    def _restart(self, *, is_crash: bool) -> None:
        if is_crash:
            _end(self.real, "abandon")
            _end(self.model, "abandon")
            # No checkpoint may run while the files are copied.
            self.real._writer.wait_for_work()
            copy = self.directory.with_name(str(int(self.directory.name) + 1))
            shutil.copytree(self.directory, copy)
            self.crashed.append(self.real)
            self.directory = copy
        else:
            self.real.close()
            self.model.flush()
        self.real = self._start()
        self.model = self.model.reopen()

    def _start(self) -> JournalLog:
        return JournalLog(
            self.directory,
            is_synced=False,
            verify=True,
            journal_bytes=2_000,
            segment_bytes=600,
        )


def _end(log: Log, name: str) -> None:
    if name == "abandon":
        log.abandon(log.take())
    else:
        log.flush()
        if name == "checkpoint" and isinstance(log, JournalLog):
            log.checkpoint()


@pytest.mark.slow
@given(st.lists(steps, max_size=40))
def test_both_logs_have_the_same_contents(
    history: list[tuple[str, bool, int]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        both = Both(Path(directory))
        for step in history:
            both.step(*step)
        _end(both.real, "flush")
        _end(both.model, "flush")
        both.check()
        both._restart(is_crash=True)
        both.check()
        both.step("checkpoint", False, 0)
        both.check()
        both.close()
