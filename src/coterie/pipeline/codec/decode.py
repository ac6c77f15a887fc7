"""Bronze rows to silver rows."""

from __future__ import annotations

from coterie.pipeline.codec.oracle import decode

__all__ = ["decode"]
