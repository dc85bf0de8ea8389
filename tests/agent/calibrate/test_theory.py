"""Theoretical peaks by the arithmetic of the makers' manuals, and when there is none."""

from __future__ import annotations

import re

import pytest
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.theory import identify, theoretical
from roofline_agent.records import Provenance

INTEL = Hardware(
    host="node1", cpu_model="", flags=frozenset(), cpus=(0, 1), caches=(), available_bytes=0,
    vendor="GenuineIntel", family=6, model=0, cores=24, sockets=2,
)  # fmt: skip
ARM = INTEL._replace(vendor="0x41", family=8, model=0xD0C)
GOLD = INTEL._replace(model=85, cpu_model="Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz")


def peak(precision: str, width: int, clock_hz: float | None, operation: str = "fma") -> Ceiling:
    return Ceiling(
        f"peak.{precision}.{width}", "compute", "", precision, width, 1e11, "FLOP/s", 0.1, "how", 7,
        threads=2, median=9e10, clock_hz=clock_hz, operation=operation,
    )  # fmt: skip


def value(machine: Hardware, ceiling: Ceiling) -> float | None:
    found, _ = theoretical(machine, [ceiling])
    return found[0].value if found else None


@pytest.mark.parametrize(
    ("machine", "ceiling", "gflops"),
    [
        # 2 sockets x 12 cores; 2 units x 16 lanes x 2 FLOP at 2.4 GHz.
        (GOLD, peak("f32", 512, 2.4e9), 24 * 2.4 * 64),
        (GOLD, peak("f64", 256, 3.0e9), 24 * 3.0 * 16),
        (GOLD, peak("f32", 32, 3.7e9), 24 * 3.7 * 4),
        # The seed paper's 710.4 GFLOP/s: 8 single-precision FLOP a cycle, of an adder of 256 bits alone. A
        # multiplier next to it makes twice as many.
        (INTEL._replace(model=45), peak("f32", 256, 3.7e9, "mul_add"), 2 * 710.4),
        (INTEL._replace(flags=frozenset({"amx_tile"})), peak("bf16", 0, 3e9, "amx"), 24 * 3 * 1024),
        (INTEL._replace(model=143), peak("f16", 512, 3e9), 24 * 3 * 128),
        (INTEL._replace(vendor="AuthenticAMD", family=0x17, model=1), peak("f32", 256, 3e9), 24 * 3 * 16),
        (INTEL._replace(vendor="AuthenticAMD", family=0x17, model=0x31), peak("f32", 256, 3e9), 24 * 3 * 32),
        (
            INTEL._replace(vendor="AuthenticAMD", family=0x19, model=0x11, flags=frozenset({"avx512f"})),
            peak("f64", 512, 3e9),
            24 * 3 * 16,
        ),
        (ARM, peak("f64", 128, 2.6e9), 24 * 2.6 * 8),  # Neoverse N1: 2 x 2 lanes x 2 FLOP
        (ARM._replace(model=0xD4F), peak("f32", 128, 3e9), 24 * 3 * 32),  # V2: 4 x 4 lanes x 2 FLOP
        (ARM._replace(model=0xD40), peak("f64", 256, 2.6e9), 24 * 2.6 * 16),  # V1 by SVE: 2 x 4 lanes x 2
        (ARM._replace(model=0xD40), peak("f64", 64, 2.6e9), 24 * 2.6 * 8),
        (ARM._replace(vendor="0x46", model=1), peak("f64", 512, 2.2e9), 24 * 2.2 * 32),  # A64FX
    ],
)
def test_peaks_by_the_manuals(machine: Hardware, ceiling: Ceiling, gflops: float) -> None:
    assert value(machine, ceiling) == pytest.approx(gflops * 1e9)


def test_theoretical_peak_stands_beside_and_says_what_it_is() -> None:
    (found,), notes = theoretical(GOLD, [peak("f32", 512, 2.4e9)])
    assert notes == ()
    assert (found.name, found.provenance) == ("peak.f32.512.theory", int(Provenance.ANALYTIC))
    assert (found.median, found.spread) == (None, 0.0)
    assert "24 core(s) x 2.40 GHz (measured while such or wider vectors ran) x 64 FLOP/cycle" in found.method


@pytest.mark.parametrize("name", ["Xeon(R) Gold 5122", "Xeon(R) Platinum 8160", "Xeon(R) W-2155"])
def test_dearer_parts_have_two_units_of_512_bits(name: str) -> None:
    core = identify(GOLD._replace(cpu_model=f"Intel(R) {name} CPU @ 3.60GHz"))
    assert core is not None
    assert core.units_512 == 2


@pytest.mark.parametrize("name", ["Xeon(R) Gold 5222", "Xeon(R) Gold 5320H", "Xeon(R) D-2141I"])
def test_part_whose_units_of_512_bits_are_not_known_has_peaks_of_256_bits_alone(name: str) -> None:
    part = GOLD._replace(cpu_model=f"Intel(R) {name} CPU @ 2.20GHz")
    found, (note,) = theoretical(part, [peak("f32", 256, 2e9), peak("f32", 512, 2e9)])
    assert [(one.name, one.value) for one in found] == [("peak.f32.256.theory", 24 * 2e9 * 32)]
    assert note.startswith("no theoretical peaks of 512-bit vectors: ")


def test_virtual_machine_whose_cpus_are_said_to_be_cores_gets_a_warning() -> None:
    guest = GOLD._replace(flags=frozenset({"hypervisor"}), cores=2)
    _, (note,) = theoretical(guest, [peak("f32", 256, 2e9)])
    assert "up to twice too high" in note
    # Two CPUs a core: it tells its hyperthreads.
    assert theoretical(guest._replace(cores=1), [peak("f32", 256, 2e9)])[1] == ()


@pytest.mark.parametrize("name", ["Xeon(R) Silver 4114", "Xeon(R) Bronze 3104", "Xeon(R) Gold 5118"])
def test_cheaper_parts_have_one_unit_of_512_bits(name: str) -> None:
    core = identify(GOLD._replace(cpu_model=f"Intel(R) {name} CPU @ 2.20GHz"))
    assert core is not None
    assert core.units_512 == 1


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (INTEL._replace(model=151), "model 151\\) is not known"),
        (ARM._replace(model=0xD03), "0x41, family 8, model 3331\\) is not known"),
        (INTEL._replace(vendor="CentaurHauls", model=85), "CentaurHauls"),
        # A virtual machine's bare name tells no part, and so not how many units.
        (GOLD._replace(cpu_model="Intel Xeon Processor (Skylake)"), "not known here"),
        (GOLD._replace(cores=0), "how many cores"),
    ],
)
def test_what_is_not_known_has_no_theoretical_peak_but_a_reason(machine: Hardware, reason: str) -> None:
    found, notes = theoretical(machine, [peak("f32", 256, 3e9)])
    assert found == ()
    assert len(notes) == 1
    assert re.search(reason, notes[0])


def test_no_clock_no_theoretical_peak() -> None:
    found, (note,) = theoretical(GOLD, [peak("f32", 512, None)])
    assert found == ()
    assert "clock could not be measured" in note


def test_only_peaks_of_all_cpus_with_the_best_instructions_have_one() -> None:
    one = peak("f32", 512, 2.4e9)._replace(name="peak.f32.512.one")
    unfused = peak("f32", 512, 2.4e9, "mul_add")
    gpu = peak("f32", 512, 2.4e9)._replace(device="gpu 0")
    memory = peak("f32", 512, 2.4e9)._replace(kind="memory")
    assert theoretical(GOLD, [one, gpu, memory]) == ((), ())
    assert theoretical(GOLD, [unfused]) == ((), ())
