"""Puts events into groups that count together: none needs more counters than a CPU has. Pure.

What shares a group covers the same moments, so sums and ratios over it hold even when groups take turns. A
group that is too big would never count at all. Events with a counter of their own ride along with the first
group.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...events import HardwareEvent

Group = tuple[HardwareEvent, ...]


def grouped(events: Sequence[HardwareEvent], counters: int) -> list[Group]:
    """Every event in exactly one group, as few groups as their order allows; one PMU a group.

    counters: general counters to be had. An event that needs more stands alone, and perf says no to it.
    """
    groups: list[Group] = []
    for pmu in dict.fromkeys(map(pmu_of, events)):
        groups += _of_one_pmu([event for event in events if pmu_of(event) == pmu], counters)
    return groups


def _of_one_pmu(events: Sequence[HardwareEvent], counters: int) -> list[Group]:
    fixed = tuple(event for event in events if event.fixed)
    groups: list[Group] = [fixed] if fixed else []
    free = counters
    for event in events:
        if event.fixed:
            continue
        if groups and event.counters <= free:
            groups[-1] += (event,)
            free -= event.counters
        else:
            groups.append((event,))
            free = counters - event.counters
    return groups


def pmu_of(event: HardwareEvent) -> str:
    """The PMU that an event names, where there are two kinds of core; else all core events are one PMU's."""
    name, slash, _ = event.perf.partition("/")
    return name if slash and name.startswith("cpu_") else "cpu"


def spelled(groups: Sequence[Group]) -> str:
    """The groups as perf's -e wants them."""
    return ",".join("{" + ",".join(event.perf for event in group) + "}" for group in groups)
