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

    counters: general counters to be had. An event that needs more is alone, and perf refuses it.
    """
    groups: list[Group] = []
    for pmu in dict.fromkeys(map(pmu_of, events)):
        of_pmu = [event for event in events if pmu_of(event) == pmu]
        fixed = tuple(event for event in of_pmu if event.fixed)
        group, free = fixed, counters
        for event in of_pmu:
            if event.fixed:
                continue
            if event.counters > free or not group:
                if group:
                    groups.append(group)
                group, free = (), counters
            group += (event,)
            free -= event.counters
        groups.append(group)
    return groups


def pmu_of(event: HardwareEvent) -> str:
    """The PMU that an event names, where there are two kinds of core; else all core events are one PMU's."""
    name, slash, _ = event.perf.partition("/")
    return name if slash and name.startswith("cpu_") else "cpu"


def spelled(groups: Sequence[Group]) -> str:
    """The groups as perf's -e wants them."""
    return ",".join("{" + ",".join(event.perf for event in group) + "}" for group in groups)
