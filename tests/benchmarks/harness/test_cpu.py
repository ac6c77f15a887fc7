"""CPU time of the machine, and the warning when others use it."""

from __future__ import annotations

import os

from benchmarks.harness.cpu import QUIET_SHARE, machine_cpu_s, others_note


def test_idle_and_guest_time_is_not_counted_and_stolen_time_is() -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat = "cpu  100 20 30 9999 8888 4 5 6 77 88\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
    assert machine_cpu_s(stat) == (100 + 20 + 30 + 4 + 5 + 6) / os.sysconf("SC_CLK_TCK")


def test_only_a_busy_machine_is_warned_of() -> None:
    assert "WARNING" not in others_note(QUIET_SHARE)
    assert "WARNING" in others_note(QUIET_SHARE + 0.01)
    assert others_note(-0.01).startswith("other processes used 0%")
