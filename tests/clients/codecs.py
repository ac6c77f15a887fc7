"""The five codecs and what tests compress with them."""

from __future__ import annotations

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def compressible(count: int) -> list[bytes]:
    """So many distinct values that shrink: each client then really compresses."""
    return [b"%06d " % i + b"coterie " * 30 for i in range(count)]
