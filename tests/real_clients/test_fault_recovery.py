"""Every client recovers from every fault of the kit; docs/testing/faults.md has the
times, which `python -m benchmarks fault_recovery` measures."""

from __future__ import annotations

import pytest

from tests.real_clients.fault_recovery import CLIENTS, FAULTS, NEEDS_SHORT, measure

pytestmark = pytest.mark.slow

FENCED = {"UNKNOWN_MEMBER_ID", "CommitFailedError"}
TIMED_OUT = {"KafkaTimeoutError", "CommitFailedError", "RequestTimedOutError"}
TIMED_OUT |= {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_recovers(fault: str, client: str) -> None:
    recovery = measure(fault, client, is_short=(fault, client) in NEEDS_SHORT)

    allowed = FENCED if "fence" in fault else set()
    if "close=False" in fault:
        allowed = TIMED_OUT
    assert set(recovery.errors) <= allowed
