"""Compression of record batches: none, gzip, snappy, lz4 and zstd.

snappy-java writes its own framing around blocks ("xerial"): a header of 16 bytes, then
blocks, each with its length. Clients send either that or a single raw block.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import cramjam
from xxhash import xxh32_intdigest

from coterie.errors import MalformedFrame

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16
XERIAL_VERSIONS: Final = struct.pack(">ii", 1, 1)
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest decompressed batch that is read: a few bytes can decompress to gigabytes."""
BLOCK_LENGTH_BYTES: Final = 4
BUFFER_BYTES_MIN: Final = 64 * 1024
EXPECTED_RATIO: Final = 8
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_FRAME_BYTES_MIN: Final = 15
LZ4_WORD: Final = struct.Struct("<I")
LZ4_USUAL_MASK: Final = 0xE3
LZ4_USUAL: Final = 0x60
"""Version 1, independent blocks, no dictionary."""
LZ4_BLOCK_CHECKSUM: Final = 0x10
LZ4_CONTENT_SIZE: Final = 0x08
LZ4_CONTENT_CHECKSUM: Final = 0x04
"""As a number, also the size of that checksum."""
LZ4_RAW_BLOCK: Final = 1 << 31
"""The bit in the size of a block that is not compressed."""
LZ4_RATIO_MAX: Final = 255
BUFFER_TOO_SMALL: Final = "failed to write whole buffer"
"""The library's message when the output buffer is too small."""


class Codec(IntEnum):
    """The compression codecs, by the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_STREAMS: Final = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}


class NotDecompressed(MalformedFrame):
    """Bytes that are not of their codec."""


class DataTooLarge(MalformedFrame):
    """Data that decompress to more than the limit."""


def compress(codec: Codec, data: bytes) -> bytes:
    """Compress the records part of a batch."""
    if codec is Codec.NONE:
        return data
    if codec is Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(data))
        head = XERIAL_MAGIC + XERIAL_VERSIONS
        return head + struct.pack(">i", len(block)) + block
    if codec is Codec.LZ4:
        # Kafka's clients in Java do not read blocks that depend on earlier ones
        # (Lz4BlockInputStream).
        stream = cramjam.lz4.Compressor(block_linked=False)
        stream.compress(data)
        return bytes(stream.finish())
    return bytes(_STREAMS[codec].compress(data))


def decompress(
    codec: Codec, data: bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Decompress the records part of a batch from `compress` or from any client.

    Raises NotDecompressed when the bytes are not of that codec, and DataTooLarge when
    they decompress to more than `bytes_max`.
    """
    found = decompress_buffer(codec, data, bytes_max)
    return found if isinstance(found, bytes) else bytes(found)


def decompress_buffer(
    codec: Codec, data: bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes | bytearray:
    """Do what `decompress` does without a copy of the result, which takes long for a
    large one and keeps other threads from running."""
    if codec is Codec.NONE:
        return data
    try:
        if codec is Codec.SNAPPY:
            return _unsnappy(data, bytes_max)
        if codec is Codec.LZ4:
            return _unlz4(data, bytes_max)
        return _bounded(codec, data, bytes_max)
    except (
        cramjam.DecompressionError,
        ValueError,
        OverflowError,
        struct.error,
    ) as error:
        raise NotDecompressed(f"{codec.name.lower()} batch: {error}") from None


def _bounded(codec: Codec, data: bytes, bytes_max: int) -> bytearray:
    """Decompress a stream into a buffer that is enlarged up to the limit."""
    # The formats do not state the decompressed size reliably, and the library has no
    # limit: a fixed buffer is the limit.
    module = _STREAMS[codec]
    size = max(len(data) * EXPECTED_RATIO, BUFFER_BYTES_MIN)
    while True:
        out = bytearray(min(size, bytes_max))
        try:
            written = module.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if BUFFER_TOO_SMALL not in str(error):
                raise
            if size >= bytes_max:
                raise _too_large(bytes_max) from None
            size *= EXPECTED_RATIO
            del out  # before the larger one is allocated
        else:
            del out[written:]
            return out


def _unlz4(data: bytes, bytes_max: int) -> bytes | bytearray:
    """Decompress an LZ4 frame block by block, because the library's decoder of frames
    takes ten times as long as that of blocks.

    As in Apache Kafka's Lz4BlockInputStream, the checksum of the content is not
    verified: the batch has its own. Frames that no client of Kafka writes, and all that
    is malformed, are left to the library.
    """
    at = _lz4_blocks_at(data)
    if at is None:
        return _bounded(Codec.LZ4, data, bytes_max)
    flags, block_bytes_max = data[4], 1 << 8 + 2 * (data[5] >> 4 & 7)
    checked_bytes = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    found: list[bytes] = []
    room = bytes_max
    while size := LZ4_WORD.unpack_from(data, at)[0]:
        begin, end = at + 4, at + 4 + (size & ~LZ4_RAW_BLOCK)
        block, at = data[begin:end], end + checked_bytes
        if at > len(data) or len(block) > block_bytes_max:
            raise ValueError(f"a block of {end - begin} bytes")
        if checked_bytes:
            (stated,) = LZ4_WORD.unpack_from(data, end)
            if xxh32_intdigest(block) != stated:
                raise ValueError("the checksum of a block is wrong")
        if not size & LZ4_RAW_BLOCK:
            block = _unlz4_block(block, block_bytes_max)
        found.append(block)
        room -= len(block)
        if room < 0:
            raise _too_large(bytes_max)
    if at + 4 + (flags & LZ4_CONTENT_CHECKSUM) != len(data):
        return _bounded(Codec.LZ4, data, bytes_max)
    return found[0] if len(found) == 1 else b"".join(found)


def _lz4_blocks_at(data: bytes) -> int | None:
    """Return the position of the first block of a usual frame, None for others."""
    if len(data) < LZ4_FRAME_BYTES_MIN or data[:4] != LZ4_MAGIC:
        return None
    flags = data[4]
    at = 14 if flags & LZ4_CONTENT_SIZE else 6
    checksum = xxh32_intdigest(data[4:at]) >> 8 & 0xFF
    is_usual = flags & LZ4_USUAL_MASK == LZ4_USUAL and data[at] == checksum
    return at + 1 if is_usual else None


def _unlz4_block(block: bytes, bytes_max: int) -> bytes:
    # Most blocks are small, and a large buffer takes longer than decompressing one.
    try:
        out = bytearray(min(bytes_max, EXPECTED_RATIO * len(block)))
        size = cramjam.lz4.decompress_block_into(block, out)
    except cramjam.DecompressionError:
        out = bytearray(min(bytes_max, LZ4_RATIO_MAX * len(block)))
        size = cramjam.lz4.decompress_block_into(block, out)
    return bytes(memoryview(out)[:size])


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _unsnappy_block(data, bytes_max, bytes_max)
    blocks, at, room = [], XERIAL_HEADER_BYTES, bytes_max
    while at < len(data):
        if len(data) - at < BLOCK_LENGTH_BYTES:
            raise ValueError("a block length is truncated")
        size = int.from_bytes(data[at : at + BLOCK_LENGTH_BYTES], "big")
        at += BLOCK_LENGTH_BYTES
        if size > len(data) - at:
            raise ValueError(f"a block of {size} bytes runs past the end")
        blocks.append(_unsnappy_block(data[at : at + size], room, bytes_max))
        room -= len(blocks[-1])
        at += size
    return b"".join(blocks)


def _unsnappy_block(block: bytes, room: int, bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large(bytes_max)
    return bytes(cramjam.snappy.decompress_raw(block))


def _too_large(bytes_max: int) -> DataTooLarge:
    return DataTooLarge(f"it decompresses to more than {bytes_max} bytes")
