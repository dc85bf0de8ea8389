"""Which file of events belongs to which CPU, from cpuinfo as the kernel writes it."""

from __future__ import annotations

import pytest
from roofline_agent.events.cpu import ARM, INTEL, Cpu, family_of, identify

SAPPHIRE_RAPIDS = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
flags\t\t: fpu avx512f amx_tile

processor\t: 1
vendor_id\t: GenuineIntel
model\t\t: 85
flags\t\t: second
"""
GRACE = """processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0
"""


def test_first_cpu_of_an_intel_node() -> None:
    cpu = identify(SAPPHIRE_RAPIDS)
    assert cpu == Cpu("GenuineIntel", 6, 143, flags=frozenset({"fpu", "avx512f", "amx_tile"}))
    assert family_of(cpu) == "intel_sapphire_rapids"


def test_arm_is_recognised_by_implementer_and_part() -> None:
    cpu = identify(GRACE)
    assert (cpu.implementer, cpu.part, cpu.vendor) == (0x41, 0xD4F, "")
    assert family_of(cpu) == "arm_neoverse_v2"


@pytest.mark.parametrize(
    "text", ["", "nonsense", "model\t: big\nvendor_id\t: GenuineIntel\n", "processor : 0\n"]
)
def test_cpuinfo_that_says_little_is_a_generic_cpu(text: str) -> None:
    assert family_of(identify(text)) == "generic"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (0x3F, "intel_haswell"),
        (0x4F, "intel_broadwell"),
        (0x9E, "intel_skylake"),
        (0x55, "intel_skylake_sp"),
        (0x6A, "intel_icelake_sp"),
        (0x6C, "intel_icelake_sp"),
        (0xA7, "intel_icelake"),
        (0x8F, "intel_sapphire_rapids"),
        (0xCF, "intel_sapphire_rapids"),
        (0xAD, "intel_granite_rapids"),
        (0xAE, "intel_granite_rapids"),
        (0xAF, "intel_sierra_forest"),
        (0x97, "intel_alder_lake"),
        (0xB7, "intel_alder_lake"),
        (0xAA, "intel_meteor_lake"),
        (0xBE, "generic"),  # E-cores alone, with other events under the codes of P-cores
    ],
)
def test_intel_models(model: int, expected: str) -> None:
    assert family_of(Cpu("GenuineIntel", 6, model)) == expected


def test_unknown_intel_model_is_trusted_with_avx512_only() -> None:
    assert family_of(Cpu("GenuineIntel", 6, 0xF0, flags=frozenset({"avx512f"}))) == "intel_avx512"
    assert family_of(Cpu("GenuineIntel", 6, 0xF0, flags=frozenset({"avx2"}))) == "generic"
    for xeon_phi in (0x57, 0x85):
        assert family_of(Cpu("GenuineIntel", 6, xeon_phi, flags=frozenset({"avx512f"}))) == "generic"
    assert family_of(Cpu("GenuineIntel", 18, 0x55, flags=frozenset({"avx512f"}))) == "generic"


@pytest.mark.parametrize(
    ("family", "model", "expected"),
    [
        (0x17, 0x31, "amd_zen2"),
        (0x19, 0x01, "amd_zen3"),
        (0x19, 0x21, "amd_zen3"),
        (0x19, 0x50, "amd_zen3"),
        (0x19, 0x11, "amd_zen4"),
        (0x19, 0x61, "amd_zen4"),
        (0x19, 0xA0, "amd_zen4"),
        (0x1A, 0x02, "amd_zen5"),
        (0x15, 0x01, "generic"),
    ],
)
def test_amd_generations(family: int, model: int, expected: str) -> None:
    # Not by AVX-512: a virtual machine may hide it and still pass the PMU through.
    assert family_of(Cpu("AuthenticAMD", family, model)) == expected


@pytest.mark.parametrize(
    ("implementer", "part", "expected"),
    [
        (0x41, 0xD0C, "arm_neoverse_n1"),
        (0x41, 0xD40, "arm_neoverse_v1"),
        (0x41, 0xD4F, "arm_neoverse_v2"),
        (0x41, 0xD08, "generic"),
        (0x46, 0xD40, "generic"),
    ],
)
def test_arm_parts(implementer: int, part: int, expected: str) -> None:
    assert family_of(Cpu(implementer=implementer, part=part)) == expected


@pytest.mark.parametrize("table", [INTEL, ARM])
def test_no_number_stands_for_two_families(table: dict[str, tuple[int, ...]]) -> None:
    numbers = [number for numbers in table.values() for number in numbers]
    assert len(numbers) == len(set(numbers))
