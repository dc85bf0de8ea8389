"""Groups of events: pure, and true for any events and any number of counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.events import HardwareEvent, families
from roofline_agent.sources.perf_stat.groups import Group, grouped, pmu_of, spelled

EVENTS = st.lists(
    st.builds(
        HardwareEvent,
        perf=st.text("abc", min_size=1).flatmap(
            lambda name: st.sampled_from([name, f"cpu_core/{name}/", f"cpu_atom/{name}/", f"cpu/{name}/"])
        ),
        metric=st.just("m"),
        fixed=st.booleans(),
        counters=st.integers(1, 3),
    ),
    unique_by=lambda event: event.perf,
    max_size=30,
)


def needs(group: Group) -> int:
    return sum(event.counters for event in group if not event.fixed)


@given(EVENTS, st.integers(1, 8))
def test_every_event_is_in_exactly_one_group(events: list[HardwareEvent], counters: int) -> None:
    assert sorted(e for group in grouped(events, counters) for e in group) == sorted(events)


@given(EVENTS, st.integers(1, 8))
def test_no_group_needs_more_counters_than_there_are(events: list[HardwareEvent], counters: int) -> None:
    for group in grouped(events, counters):
        alone = len([event for event in group if not event.fixed]) == 1
        assert needs(group) <= counters or alone


@given(EVENTS, st.integers(1, 8))
def test_a_group_belongs_to_one_pmu(events: list[HardwareEvent], counters: int) -> None:
    assert all(len(set(map(pmu_of, group))) == 1 for group in grouped(events, counters))


@given(EVENTS, st.integers(1, 8))
def test_no_group_is_opened_while_the_event_fits_the_last(events: list[HardwareEvent], counters: int) -> None:
    for one, other in zip(grouped(events, counters), grouped(events, counters)[1:], strict=False):
        if pmu_of(one[0]) == pmu_of(other[0]):
            assert needs(one) + other[0].counters > counters


def test_fixed_events_ride_along_with_the_first_group() -> None:
    skylake = families()["intel_skylake_sp"]
    first, *others = grouped(skylake.events, skylake.counters)
    assert [event.metric for event in first[:2]] == ["instructions", "cycles"]
    assert [len(first), *map(len, others)] == [6, 4, 1]


@pytest.mark.parametrize("name", ["amd_zen2", "amd_zen3", "amd_zen4", "amd_zen5"])
def test_amd_events_fit_without_taking_turns_even_beside_a_watchdog(name: str) -> None:
    family = families()[name]
    (only,) = grouped(family.events, family.counters - 1)
    assert needs(only) == 5


def test_spelled_for_perf() -> None:
    a, b = HardwareEvent("cpu/event=0xc7,umask=0x01/", "x"), HardwareEvent("cycles", "y")
    assert spelled([(a, b), (a,)]) == "{cpu/event=0xc7,umask=0x01/,cycles},{cpu/event=0xc7,umask=0x01/}"
