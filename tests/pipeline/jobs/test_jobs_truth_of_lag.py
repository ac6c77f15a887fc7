"""Lag, verdicts and expiry of a run compared with the truth of the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.pipeline.lake.lake import Lake
from tests.pipeline.gold.expiry_truth import check_forecast, loaded
from tests.pipeline.gold.lag_truth import (
    check_lag,
    check_status,
    truth_of,
    unknown_from,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_lag_verdicts_and_expiry_match_the_generated_truth(
    log: Path, whole: Lake
) -> None:
    truth, unknown = truth_of(log), unknown_from(log)
    check_lag(whole.read("lag_history").to_pylist(), truth, unknown)
    check_status(whole.read("group_status").to_pylist(), truth, unknown)
    drivers = loaded(log, whole.version.positions)
    check_forecast(whole.read("expiry_forecast").to_pylist(), drivers)
