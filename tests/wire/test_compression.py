"""Five codecs against the client's own, and against bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam
import kafka.codec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.wire import compression
from coterie.wire.compression import XERIAL_MAGIC, Codec, compress, decompress

DATA = b"some text, some text, some more text" * 2000
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
THEIRS: dict[Codec, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Codec.GZIP: (kafka.codec.gzip_encode, kafka.codec.gzip_decode),
    Codec.SNAPPY: (kafka.codec.snappy_encode, kafka.codec.snappy_decode),
    Codec.LZ4: (kafka.codec.lz4_encode, kafka.codec.lz4_decode),
    Codec.ZSTD: (kafka.codec.zstd_encode, kafka.codec.zstd_decode),
}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_what_we_compress_others_undo(codec: Codec) -> None:
    body = compress(codec, DATA)
    assert len(body) < len(DATA)
    assert bytes(THEIRS[codec][1](body)) == DATA


@pytest.mark.parametrize("codec", COMPRESSING)
def test_what_others_compress_we_undo(codec: Codec) -> None:
    assert decompress(codec, bytes(THEIRS[codec][0](DATA))) == DATA


def test_snappy_may_come_without_the_framing_of_java() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))) == DATA


def test_snappy_may_come_in_many_blocks() -> None:
    body = kafka.codec.snappy_encode(DATA, xerial_blocksize=1000)
    assert decompress(Codec.SNAPPY, body) == DATA


def test_no_codec_leaves_the_bytes_alone() -> None:
    assert compress(Codec.NONE, DATA) is DATA
    assert decompress(Codec.NONE, DATA) is DATA


@pytest.mark.parametrize("codec", COMPRESSING)
def test_nothing_survives_too(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b"")) == b""


@pytest.mark.parametrize("codec", COMPRESSING)
def test_more_than_the_first_buffer_holds_is_undone(codec: Codec) -> None:
    zeros = bytes(3_000_000)
    assert decompress(codec, compress(codec, zeros)) == zeros


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_malformed(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    body = compress(codec, bytes(1_000_000))
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 999_999)
    with pytest.raises(MalformedFrame):
        decompress(codec, body)


def test_a_bomb_of_many_blocks_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = kafka.codec.snappy_encode(bytes(100_000), xerial_blocksize=1000)
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 99_999)
    with pytest.raises(MalformedFrame):
        decompress(Codec.SNAPPY, body)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_compressed_bytes_cut_short_are_malformed(codec: Codec) -> None:
    with pytest.raises(MalformedFrame):
        decompress(codec, compress(codec, DATA)[:-3])


@pytest.mark.parametrize("tail", [b"\0\0", struct.pack(">i", 5) + b"abc"])
def test_java_framing_cut_short_is_malformed(tail: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decompress(Codec.SNAPPY, XERIAL_MAGIC + struct.pack(">ii", 1, 1) + tail)


@given(st.sampled_from(COMPRESSING), st.binary(max_size=200))
def test_any_bytes_are_malformed_or_undone(codec: Codec, body: bytes) -> None:
    try:
        decompress(codec, body)
    except MalformedFrame:
        return
