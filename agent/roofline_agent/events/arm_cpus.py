"""Names of Arm CPUs: Linux has no "model name" for them in /proc/cpuinfo, but the numbers of MIDR_EL1.

Numbers: linux arch/arm64/include/asm/cputype.h, and the makers' reference manuals.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[tuple[int, int], str] = {
    (0x41, 0xD03): "Arm Cortex-A53",
    (0x41, 0xD05): "Arm Cortex-A55",
    (0x41, 0xD07): "Arm Cortex-A57",
    (0x41, 0xD08): "Arm Cortex-A72",
    (0x41, 0xD0B): "Arm Cortex-A76",
    (0x41, 0xD0C): "Arm Neoverse N1",
    (0x41, 0xD40): "Arm Neoverse V1",
    (0x41, 0xD49): "Arm Neoverse N2",
    (0x41, 0xD4F): "Arm Neoverse V2",
    (0x41, 0xD84): "Arm Neoverse V3",
    (0x41, 0xD8E): "Arm Neoverse N3",
    (0x43, 0x0AF): "Cavium ThunderX2",
    (0x46, 0x001): "Fujitsu A64FX",
    (0x48, 0xD01): "HiSilicon TaiShan v110",
    (0xC0, 0xAC3): "Ampere-1",
}


def arm_name(implementer: int, part: int) -> str:
    """The name of a CPU, or its numbers where it is not known here."""
    return NAMES.get((implementer, part), f"Arm CPU of implementer {implementer:#04x}, part {part:#05x}")
