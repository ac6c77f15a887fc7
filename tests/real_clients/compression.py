"""The compression codecs, and compressible data."""

from __future__ import annotations

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def compressible(count: int) -> list[bytes]:
    """Return distinct values that compress well, so that clients compress them."""
    return [b"%06d " % i + b"coterie " * 30 for i in range(count)]
