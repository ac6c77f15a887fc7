"""The compression codecs, compared with those of clients, and malformed input."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import cramjam
import kafka.codec
import lz4.frame  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import MalformedFrame
from coterie.wire.compression import (
    XERIAL_MAGIC,
    Codec,
    DataTooLarge,
    compress,
    decompress,
)

DATA = b"some text, some text, some more text" * 2000
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
THEIRS: dict[Codec, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Codec.GZIP: (kafka.codec.gzip_encode, kafka.codec.gzip_decode),
    Codec.SNAPPY: (kafka.codec.snappy_encode, kafka.codec.snappy_decode),
    Codec.LZ4: (kafka.codec.lz4_encode, kafka.codec.lz4_decode),
    Codec.ZSTD: (kafka.codec.zstd_encode, kafka.codec.zstd_decode),
}


@pytest.mark.parametrize("codec", COMPRESSING)
def test_other_libraries_decompress_coteries_data(codec: Codec) -> None:
    body = compress(codec, DATA)
    assert len(body) < len(DATA)
    assert bytes(THEIRS[codec][1](body)) == DATA


@pytest.mark.parametrize("codec", COMPRESSING)
def test_data_of_other_libraries_is_decompressed(codec: Codec) -> None:
    assert decompress(codec, bytes(THEIRS[codec][0](DATA))) == DATA


def test_snappy_data_may_lack_javas_framing() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))) == DATA


def test_snappy_data_may_have_many_blocks() -> None:
    body = kafka.codec.snappy_encode(DATA, xerial_blocksize=1000)
    assert decompress(Codec.SNAPPY, body) == DATA


def test_codec_none_leaves_the_bytes_unchanged() -> None:
    assert compress(Codec.NONE, DATA) is DATA
    assert decompress(Codec.NONE, DATA) is DATA


@pytest.mark.parametrize("codec", COMPRESSING)
def test_empty_data_is_decompressed(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b"")) == b""


@pytest.mark.parametrize("codec", COMPRESSING)
def test_data_larger_than_the_first_buffer_is_decompressed(codec: Codec) -> None:
    zeros = bytes(3_000_000)
    assert decompress(codec, compress(codec, zeros)) == zeros


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_decompression_bomb_is_too_large(codec: Codec) -> None:
    body = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, body, 1_000_000)) == 1_000_000
    with pytest.raises(DataTooLarge):
        decompress(codec, body, 999_999)


def test_lz4_blocks_are_independent_as_javas_clients_require() -> None:
    flags = compress(Codec.LZ4, DATA)[4]
    assert flags & 0x20, "block independence, of the LZ4 frame format"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 7])
@pytest.mark.parametrize("data", [b"x", DATA * 9, bytes(range(256)) * 1000])
def test_any_lz4_frame_is_decompressed(
    data: bytes, block_size: int, checks: bool, linked: bool
) -> None:
    body = lz4.frame.compress(
        data,
        block_size=block_size,
        block_linked=linked,
        block_checksum=checks,
        content_checksum=checks,
        store_size=checks,
    )
    assert decompress(Codec.LZ4, body) == data
    half = len(data) // 2
    two = lz4.frame.compress(data[:half]) + lz4.frame.compress(data[half:])
    assert decompress(Codec.LZ4, two) == data


def test_lz4_blocks_that_are_not_compressed_are_copied() -> None:
    data = random.Random(1).randbytes(150_000)
    assert decompress(Codec.LZ4, compress(Codec.LZ4, data)) == data


@pytest.mark.parametrize("at", [5, 6, 8, 20, -9])
def test_a_changed_byte_of_an_lz4_frame_is_malformed(at: int) -> None:
    body = bytearray(compress(Codec.LZ4, DATA))
    body[at] ^= 0x04
    with pytest.raises(MalformedFrame):
        decompress(Codec.LZ4, bytes(body))


def test_a_decompression_bomb_of_many_blocks_is_too_large() -> None:
    body = kafka.codec.snappy_encode(bytes(100_000), xerial_blocksize=1000)
    with pytest.raises(DataTooLarge):
        decompress(Codec.SNAPPY, body, 99_999)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_truncated_compressed_bytes_are_malformed(codec: Codec) -> None:
    with pytest.raises(MalformedFrame):
        decompress(codec, compress(codec, DATA)[:-3])


@pytest.mark.parametrize("tail", [b"\0\0", struct.pack(">i", 5) + b"abc"])
def test_truncated_xerial_framing_is_malformed(tail: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decompress(Codec.SNAPPY, XERIAL_MAGIC + struct.pack(">ii", 1, 1) + tail)


@given(st.sampled_from(COMPRESSING), st.binary(max_size=200))
def test_arbitrary_bytes_are_malformed_or_decompressed(
    codec: Codec, body: bytes
) -> None:
    try:
        decompress(codec, body)
    except MalformedFrame:
        return
