"""The lines of stdin."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable

import pytest

from coterie.cli.topics.stdin_lines import read_chunks
from coterie.errors import ClientError


def lines(*, is_whole: bool = False) -> list[bytes]:
    async def read() -> list[bytes]:
        chunks = read_chunks(lambda _, __: None, is_whole=is_whole)
        return [line async for chunk in chunks for line in chunk]

    return asyncio.run(read())


def replace_stdin(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[int], bytes]
) -> None:
    class Raw(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return read(size or -1)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Raw()))


def test_lines_may_be_divided_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [b"a\nb", b"c\r\n", b"\nd", b""]
    replace_stdin(monkeypatch, lambda _: blocks.pop(0))
    assert lines() == [b"a", b"bc", b"", b"d"]


def test_the_whole_input_has_its_line_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [b"a\r\nb", b"c\n", b""]
    replace_stdin(monkeypatch, lambda _: blocks.pop(0))
    assert lines(is_whole=True) == [b"a\r\nbc\n"]


def test_a_byte_order_mark_is_no_part_of_the_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = [b"\xef", b"\xbb\xbfa\nb\n", b""]
    replace_stdin(monkeypatch, lambda _: blocks.pop(0))
    assert lines() == [b"a", b"b"]
    only_line = [b"\xef\xbb\xbfa", b""]
    replace_stdin(monkeypatch, lambda _: only_line.pop(0))
    assert lines() == [b"a"]
    whole = [b"\xef\xbb\xbfa\n", b""]
    replace_stdin(monkeypatch, lambda _: whole.pop(0))
    assert lines(is_whole=True) == [b"\xef\xbb\xbfa\n"]


def test_lines_of_utf_16_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = ["a\nb\n".encode("utf-16"), b""]
    replace_stdin(monkeypatch, lambda _: blocks.pop(0))
    with pytest.raises(ClientError, match="stdin is UTF-16"):
        lines()


@pytest.mark.parametrize("is_whole", [False, True])
def test_bytes_that_begin_like_utf_16_are_a_value(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    value = "ab".encode("utf-16") if is_whole else b"\xff\xfeab"
    blocks = [value, b""]
    replace_stdin(monkeypatch, lambda _: blocks.pop(0))
    assert lines(is_whole=is_whole) == [value]


def test_a_read_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> bytes:
        raise OSError(5, "Input/output error")

    replace_stdin(monkeypatch, fail)
    with pytest.raises(ClientError, match="cannot read stdin: Input/output error"):
        lines()


def test_a_closed_stdin_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> bytes:
        raise ValueError("I/O operation on closed file")

    replace_stdin(monkeypatch, fail)
    assert lines() == []
