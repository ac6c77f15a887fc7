"""Log lines that clients cause."""

from __future__ import annotations

import logging

import pytest

from coterie.broker.server.log_limit import LimitedLog


def test_one_line_a_second_with_a_count_of_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = [100.0]
    log = LimitedLog(logging.getLogger("test"), lambda: now_s[0])
    for number in range(1_000):
        log.log(logging.WARNING, "failure %d", number)
    now_s[0] += 1
    log.log(logging.WARNING, "failure %d", 1_000)
    now_s[0] += 1
    log.log(logging.WARNING, "failure %d", 1_001)
    assert caplog.messages == [
        "failure 0",
        "failure 1000 (999 similar lines suppressed)",
        "failure 1001",
    ]
