"""The log that tests of runs read."""

from __future__ import annotations

from tests.pipeline.jobs.lakes import log

__all__ = ["log"]
