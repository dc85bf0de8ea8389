"""What a new calibration could not measure stays, if it is still true of the machine."""

from __future__ import annotations

import pytest
from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.calibrate.earlier import with_earlier
from roofline_agent.records import Provenance

DAY_NS = 36 * 3600 * 10**9  # noon of the second day, which is that day in nearly all time zones
PEAK = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.03, "AVX-512", DAY_NS)
DRAM = Ceiling("dram.triad", "memory", "dram", "", 0, 4e10, "byte/s", 0.1, "STREAM", DAY_NS)
LAUNCH = Ceiling("launch", "overhead", "", "", 0, 4e-6, "s", 0.1, "torch", DAY_NS)
HBM = Ceiling("hbm.read", "memory", "hbm", "", 0, 3e12, "byte/s", 0.0, "torch", DAY_NS, device="gpu 0")
SUSTAINED = HBM._replace(name="hbm.sustained", value=3.3e12, provenance=Provenance.REPORTED, time_ns=9)
THEORY = HBM._replace(name="hbm.theory", value=3.4e12, provenance=Provenance.ANALYTIC)
BEFORE = Calibration("node1", "a CPU", 2, DAY_NS, (PEAK, DRAM, LAUNCH, HBM, THEORY))
NEW = Calibration("node1", "a CPU", 2, 3 * DAY_NS, (PEAK._replace(value=5e11), THEORY))
PART = NEW._replace(is_complete=False)


def kept_of(new: Calibration, before: Calibration = BEFORE) -> set[str]:
    """Names of the ceilings that came from the earlier one."""
    found = with_earlier(new, before)
    return {c.name for c in found.ceilings} - {c.name for c in new.ceilings}


def test_first_calibration_is_as_it_is() -> None:
    assert with_earlier(NEW, None) == NEW


def test_gpu_without_a_framework_and_launches_stay() -> None:
    assert kept_of(NEW) == {"hbm.read", "launch"}
    found = with_earlier(NEW, BEFORE)
    assert found.ceilings[:2] == NEW.ceilings and HBM in found.ceilings
    assert found.notes == ("kept from 1970-01-02, as not measured this time: launch, gpu 0 hbm.read",)


def test_what_failed_stays_and_what_a_whole_measurement_leaves_out_does_not() -> None:
    assert "dram.triad" in kept_of(PART)
    assert "dram.triad" not in kept_of(NEW)


def test_ceilings_of_other_cpus_of_the_node_are_not_kept() -> None:
    assert kept_of(PART._replace(cpus=1)) == {"hbm.read", "launch"}


def test_node_whose_cpus_cannot_be_measured_keeps_what_is_known_of_them() -> None:
    found = with_earlier(PART._replace(cpu_model="", cpus=0, ceilings=(THEORY,)), BEFORE)
    assert set(found.ceilings) == set(BEFORE.ceilings)
    assert (found.cpu_model, found.cpus) == ("a CPU", 2)


@pytest.mark.parametrize("theory", [(), (THEORY._replace(value=8e12),)])
def test_another_gpu_and_a_part_of_one_keep_nothing_and_say_so(theory: tuple[Ceiling, ...]) -> None:
    new = NEW._replace(ceilings=(PEAK, *theory))
    assert kept_of(new) == {"launch"}
    notes = with_earlier(new, BEFORE).notes
    assert any(note.startswith("gpu 0: earlier ceilings are not kept") for note in notes)


def test_what_is_measured_goes_before_what_is_reported() -> None:
    reported = NEW._replace(ceilings=(*NEW.ceilings, SUSTAINED))
    assert {HBM, SUSTAINED} & set(with_earlier(reported, BEFORE).ceilings) == {HBM}
    measured = NEW._replace(ceilings=(*NEW.ceilings, HBM))
    before = BEFORE._replace(ceilings=(SUSTAINED, THEORY))
    assert with_earlier(measured, before) == measured


@pytest.mark.parametrize("other", [{"host": "node2"}, {"cpu_model": "another"}])
def test_nothing_of_another_machine_is_kept(other: dict[str, str]) -> None:
    assert with_earlier(NEW, BEFORE._replace(**other)) == NEW  # type: ignore[arg-type]
