"""Totals of GPUs that are added up from rates."""

from __future__ import annotations

from roofline_agent.records import Rank
from roofline_agent.sources.gpu_totals import LARGEST, GpuTotals

RANK = Rank("j", "worker", 0, 11, 1)
USERS = {"0": frozenset([RANK])}
SECOND = 1_000_000_000


def test_total_begins_anew_long_before_a_column_is_full() -> None:
    totals, rate = GpuTotals(), {"0": {"dram_bytes_per_second": LARGEST / 4}}
    read = [totals.add(second * SECOND, rate, USERS)[RANK]["gpu_dram_bytes"] for second in range(10)]
    quarters = [round(4 * value / LARGEST) for value in read]
    assert quarters == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_rate_that_is_no_number_costs_its_own_total_only() -> None:
    totals, found = GpuTotals(), []
    for second, rate in enumerate((5.0, 5.0, float("inf"), float("nan"), 5.0)):
        gauges = {"0": {"dram_bytes_per_second": rate, "utilization": 1.0}}
        found.append(totals.add(second * SECOND, gauges, USERS)[RANK])
    assert [one["gpu_dram_bytes"] for one in found] == [0, 5, 0, 0, 5]
    assert [one["gpu_busy_ns"] for one in found] == [second * SECOND for second in range(5)]
