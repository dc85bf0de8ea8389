from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance
from roofline_server.records import Machine
from roofline_server.store.catalog.machine_versions import (
    ChangedMachine,
    LateCeilings,
    MachineNote,
    MachineState,
    begins_of,
    is_another,
    next_state,
    used,
)

from ...builders import DRAM, PEAK_F32, PEAK_F64, machine


def measured(at_ns: int, value: float = 1e12) -> Ceiling:
    return PEAK_F32._replace(value=value, time_ns=at_ns)


def all_late(told: Machine, after: bool) -> LateCeilings:
    return LateCeilings("node1", told.ceilings, are_all=True, measured=True, after=after)


def states(*said: tuple[int, Machine]) -> list[MachineState]:
    kept: list[MachineState] = []
    for now_ns, what in said:
        new = next_state(kept[-1] if kept else None, what, now_ns)
        if new:
            kept.append(new)
    return kept


OLD, NEW = machine(ceilings=[measured(90, 1e12)]), machine(ceilings=[measured(190, 2e12)])
BARE = machine(ceilings=[])


@pytest.mark.parametrize(
    "change",
    [
        {"host": "b"},
        {"cpu_model": "b"},
        {"sockets": 1},
        {"cores": 1},
        {"cpus": 1},
        {"memory_bytes": 1 << 36},
        {"ceilings": ()},
        {"ceilings": (PEAK_F32, DRAM._replace(time_ns=5))},
    ],
)
def test_hardware_and_ceilings_make_a_version(change: dict[str, object]) -> None:
    other = machine()._replace(**change)  # type: ignore[arg-type]
    assert is_another(machine(), other)
    assert [s.version for s in states((1, machine()), (2, other))] == [1, 2]


@pytest.mark.parametrize(
    "change", [{"kernel": "7"}, {"interval_ns": 5}, {"sources": ()}, {"memory_bytes": (1 << 37) - 4096}]
)
def test_other_things_are_kept_within_a_version(change: dict[str, object]) -> None:
    other = machine()._replace(**change)  # type: ignore[arg-type]
    assert [(s.version, s.since_ns) for s in states((1, machine()), (2, other))] == [(1, 1), (1, 2)]


def test_order_of_ceilings_says_nothing() -> None:
    assert not is_another(machine(ceilings=[PEAK_F32, DRAM]), machine(ceilings=[DRAM, PEAK_F32]))


def test_the_same_again_is_not_kept() -> None:
    assert len(states((1, OLD), (2, OLD), (3, NEW), (4, NEW), (5, OLD))) == 3


@pytest.mark.parametrize(
    ("begin_ns", "end_ns", "version", "notes"),
    [
        (120, 150, 1, ()),
        (120, 199, 1, (ChangedMachine("node1", 1),)),
        (195, 250, 2, ()),
        (50, 80, 1, (all_late(OLD, after=True),)),
        (50, 95, 1, (all_late(OLD, after=False),)),
    ],
)
def test_job_keeps_what_was_true_when_it_began(
    begin_ns: int, end_ns: int, version: int, notes: tuple[MachineNote, ...]
) -> None:
    use = used(states((100, OLD), (200, NEW)), begin_ns, end_ns)
    assert (use.version, use.machine) == (version, {1: OLD, 2: NEW}[version])
    assert use.notes == notes


def test_first_ceilings_that_came_after_the_job_are_used_and_said_so() -> None:
    old_sources = BARE._replace(sources=())
    use = used(states((100, old_sources), (200, NEW), (300, OLD)), 110, 150)
    assert use.machine == old_sources._replace(ceilings=NEW.ceilings), "the sources stay those of its time"
    assert use == (2, use.machine, (all_late(NEW, after=True),))


NET = measured(0)._replace(name="net.tcp", kind="network", level="network", precision="", peer="node2")


@pytest.mark.parametrize(
    ("end_ns", "late"),
    [
        (150, [(["node2", "node3"], True)]),
        (195, [(["node2"], False), (["node3"], True)]),
    ],
)
def test_what_was_not_measured_at_all_comes_from_the_first_that_did(
    end_ns: int, late: list[tuple[list[str], bool]]
) -> None:
    """`calibrate`, the job, `bench net`, and both again."""
    net, again = NET._replace(time_ns=190), NET._replace(time_ns=290, value=7.0)
    other_peer = again._replace(peer="node3")
    kept = states(
        (100, OLD),
        (200, machine(ceilings=[*OLD.ceilings, net])),
        (300, machine(ceilings=[*NEW.ceilings, again, other_peer])),
    )
    use = used(kept, 120, end_ns)
    assert (use.version, use.machine.ceilings) == (1, (*OLD.ceilings, net, other_peer))
    assert all(isinstance(note, LateCeilings) and not note.are_all and note.measured for note in use.notes)
    assert [
        ([c.peer for c in note.ceilings], note.after) for note in use.notes if isinstance(note, LateCeilings)
    ] == late


def test_theory_stands_not_for_what_was_measured_later() -> None:
    theory = PEAK_F32._replace(name="peak.f32.theory", device="gpu 0", provenance=Provenance.ANALYTIC)
    gpu = PEAK_F32._replace(device="gpu 0", time_ns=190)
    kept = states((100, machine(ceilings=[theory])), (200, machine(ceilings=[theory, gpu])))
    assert used(kept, 120, 150).machine.ceilings == (theory, gpu)


def test_ceilings_of_other_hardware_are_not_taken() -> None:
    kept = states((100, BARE), (200, NEW._replace(cpu_model="another")))
    assert used(kept, 120, 150) == (1, BARE, ())


def test_ceilings_measured_before_and_told_after_are_not_called_late() -> None:
    """The agent was cut off: the server heard of both only when the job was over."""
    use = used(states((200, BARE), (201, machine(ceilings=[measured(40)]))), 50, 100)
    assert (use.machine.ceilings, use.notes) == ((measured(40),), ())


def test_machine_that_was_never_calibrated() -> None:
    assert used(states((100, BARE)), 110, 150) == (1, BARE, ())


def test_hardware_that_changes_does_not_hold_since_its_old_ceilings_were_measured() -> None:
    more = OLD._replace(cpus=96)
    assert begins_of(states((100, OLD), (200, more))) == [0, 200]
    assert used(states((100, OLD), (200, more)), 110, 150).machine == OLD


MACHINES = [
    machine(ceilings=[measured(at, value)] if at else [], kernel=kernel)
    for at in (0, 10, 40)
    for value in (1e12, 2e12)
    for kernel in ("6.1", "6.2")
]
said = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(MACHINES)), min_size=1, max_size=8)


@settings(deadline=None)
@given(said, st.integers(-5, 60), st.integers(0, 30))
def test_what_is_used_was_said(told: Sequence[tuple[int, Machine]], begin_ns: int, length_ns: int) -> None:
    kept = states(*told)
    assert [s.version for s in kept] == sorted(s.version for s in kept)
    begins = begins_of(kept)
    assert begins == sorted(begins)
    use = used(kept, begin_ns, begin_ns + length_ns)
    assert use.machine.ceilings in {s.machine.ceilings for s in kept if s.version == use.version}


@settings(deadline=None)
@given(said, st.integers(0, 60))
def test_what_is_said_later_changes_no_job_that_has_ceilings(
    told: Sequence[tuple[int, Machine]], end_ns: int
) -> None:
    kept = states(*told)
    before = used(kept, 0, end_ns)
    moment = max(kept[-1].since_ns, end_ns) + 1
    after = [*kept, MachineState(kept[-1].version + 1, moment, machine(ceilings=[measured(moment, 5e12)]))]
    if before.machine.ceilings:
        assert used(after, 0, end_ns) == before


# -- ceilings that something speaks against ---------------------------------------------------------


def doubted(at_ns: int, value: float = 1e12) -> Ceiling:
    return measured(at_ns, value)._replace(doubt="others took 86% of the CPUs")


def test_what_speaks_against_a_ceiling_stays_true_of_the_job() -> None:
    said = states((100, machine(ceilings=[doubted(90)])), (300, machine(ceilings=[measured(290, 2e12)])))
    assert used(said, 150, 200) == (1, machine(ceilings=[doubted(90)]), ())


def test_a_later_calibration_adds_nothing_to_one_of_before() -> None:
    said = states((100, machine(ceilings=[measured(90)])), (300, machine(ceilings=[measured(290), DRAM])))
    more = states((100, machine(ceilings=[measured(90), DRAM])), (300, machine(ceilings=[PEAK_F64, DRAM])))
    assert used(more, 150, 200).machine.ceilings == (measured(90), DRAM)
    assert set(used(said, 150, 200).machine.ceilings) == {measured(90), DRAM}  # of memory there was none
