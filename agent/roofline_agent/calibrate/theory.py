"""Theoretical peaks: cores x clock x FLOP per cycle, listed next to the measured ones and never used in their
place.

Pure. The FLOP per cycle are those of the core's design, known by vendor, family, model and flags (Intel 64
and IA-32 Architectures Optimization Reference Manual; AMD Software Optimization Guides of families 17h, 19h
and 1Ah; Arm Neoverse N1, N2, V1 and V2 Software Optimization Guides; A64FX Microarchitecture Manual). The
clock is the one that the cores had while the same ceiling, or one of wider vectors, was measured, so that a
difference is the code's and not the clock's. A core that is not known here has no theoretical peak.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.records import Provenance

_AMX_BF16_PER_CYCLE = 1024  # Intel: 2048 operations on int8, half of that on bf16
_BITS = {"f64": 64, "f32": 32, "f16": 16}


class CoreDesign(NamedTuple):
    """What a core starts in a cycle."""

    design: str
    units: int  # vectors of up to 256 bits
    units_512: int = 0
    fma: bool = True  # else a multiplication and an addition are started by a unit each
    widest: int = 256  # of a unit's path for the vectors up to 256 bits
    tiles: bool = False


_HASWELL = CoreDesign("Haswell to Skylake client: 2 FMA units of 256 bits", 2)
_SKYLAKE_2 = CoreDesign("Skylake or Cascade Lake server: 2 FMA units of 512 bits", 2, 2)
_SKYLAKE_1 = CoreDesign("Skylake or Cascade Lake server: 1 FMA unit of 512 bits", 2, 1)
_SKYLAKE = CoreDesign(
    "Skylake or Cascade Lake server: 1 or 2 FMA units of 512 bits, not known of this part", 2
)
_ICE_CLIENT = CoreDesign("Ice Lake to Rocket Lake client: 1 FMA unit of 512 bits", 2, 1)
_ICE_D = CoreDesign("Ice Lake-D: 1 or 2 FMA units of 512 bits, not known of this part", 2)
_ICE_SERVER = CoreDesign("Ice Lake server: 2 FMA units of 512 bits", 2, 2)
_SAPPHIRE = CoreDesign("Sapphire Rapids or newer server: 2 FMA units of 512 bits, AMX", 2, 2, tiles=True)
_SANDY = CoreDesign("Sandy or Ivy Bridge: a multiplier and an adder of 256 bits", 1, fma=False)
_NEHALEM = CoreDesign("Nehalem or Westmere: a multiplier and an adder of 128 bits", 1, fma=False, widest=128)
_ZEN_1 = CoreDesign("Zen: 2 FMA units of 128 bits", 2, widest=128)
_ZEN_2 = CoreDesign("Zen 2 or Zen 3: 2 FMA units of 256 bits", 2)
_ZEN_4 = CoreDesign("Zen 4: 2 FMA units of 256 bits, two cycles for 512", 2, 1)
_ZEN_5 = CoreDesign("Zen 5: 2 FMA units of 512 bits", 2, 2)

# By implementer and part number. Vectors of SVE take the units of those of NEON, two or four at a time.
_ARM = {
    ("0x41", 0xD0C): CoreDesign("Neoverse N1: 2 FMA units of 128 bits", 2, widest=128),
    ("0x41", 0xD49): CoreDesign("Neoverse N2: 2 FMA units of 128 bits", 2, widest=128),
    ("0x41", 0xD40): CoreDesign("Neoverse V1: 4 FMA units of 128 bits", 4, widest=128),
    ("0x41", 0xD4F): CoreDesign("Neoverse V2: 4 FMA units of 128 bits", 4, widest=128),
    ("0x46", 0x001): CoreDesign("A64FX: 2 FMA units of 512 bits", 2, 2),
}

_INTEL_FAMILY_6 = {
    **dict.fromkeys((26, 30, 31, 46, 37, 44, 47), _NEHALEM),
    **dict.fromkeys((42, 45, 58, 62), _SANDY),
    **dict.fromkeys((60, 63, 69, 70, 61, 71, 79, 86, 78, 94, 142, 158, 165, 166), _HASWELL),
    **dict.fromkeys((125, 126, 140, 141, 167), _ICE_CLIENT),
    106: _ICE_SERVER,
    108: _ICE_D,
    **dict.fromkeys((143, 207, 173, 174), _SAPPHIRE),
}
_SKYLAKE_SERVER = 85
# Of this generation the cheaper ones have the second 512-bit unit switched off; the Gold 5122 has it. Of the
# Gold 5222 and 53xx (Cooper Lake) and of Xeon D sources differ or are silent.
_ONE_UNIT = re.compile(r"Bronze|Silver|Gold 5[12]\d\d")
_TWO_UNITS = re.compile(r"Platinum|Gold 5122\b|Gold 6\d{3}|W-\d{4}|Core\(TM\) i[79]")
_UNSURE = re.compile(r"Gold 5222\b")
_BRAND = re.compile(r"Xeon|Core\(TM\)")


def identify(hardware: Hardware) -> CoreDesign | None:
    """The core's design; None: not known."""
    model = hardware.model
    if hardware.vendor == "GenuineIntel" and hardware.family == 6:
        # All cores with tiles have both units; a virtual machine may state some other model.
        if "amx_tile" in hardware.flags:
            return _SAPPHIRE
        return _skylake_server(hardware.cpu_model) if model == _SKYLAKE_SERVER else _INTEL_FAMILY_6.get(model)
    if hardware.vendor == "AuthenticAMD":
        return _amd(hardware.family, model, hardware.flags)
    return _ARM.get((hardware.vendor, model))


def _skylake_server(name: str) -> CoreDesign | None:
    """By the part's name, which shows whether its second 512-bit unit is switched on."""
    if not _BRAND.search(name) or not re.search(r"\d{4}|Platinum", name):
        return None
    if _UNSURE.search(name):
        return _SKYLAKE
    if _TWO_UNITS.search(name):
        return _SKYLAKE_2
    return _SKYLAKE_1 if _ONE_UNIT.search(name) else _SKYLAKE


def _amd(family: int, model: int, flags: frozenset[str]) -> CoreDesign | None:
    if family == 0x17:
        return _ZEN_1 if model < 0x30 else _ZEN_2
    if family == 0x19:
        return _ZEN_4 if "avx512f" in flags else _ZEN_2
    # Of Zen 5 some mobile parts have narrower units.
    server_or_desktop = model < 0x20 or 0x40 <= model < 0x50
    return _ZEN_5 if family == 0x1A and server_or_desktop else None


def flops_per_cycle(core: CoreDesign, ceiling: Ceiling) -> float | None:
    """FLOP that one core starts in a cycle with the instructions of this ceiling; None: not known."""
    if ceiling.operation == "amx":
        return _AMX_BF16_PER_CYCLE if core.tiles else None
    bits = _BITS.get(ceiling.precision)
    if bits is None or ceiling.operation != ("fma" if core.fma else "mul_add"):
        return None
    if ceiling.width == 512:
        vectors: float = core.units_512
    else:
        vectors = core.units * min(1.0, core.widest / ceiling.width)
    return vectors * 2 * (ceiling.width // bits) or None


def theoretical(
    hardware: Hardware, measured: Sequence[Ceiling]
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """For each measured peak of all CPUs its theoretical one, where it is known, and why there is none."""
    peaks = [c for c in measured if c.kind == "compute" and not c.device and not c.name.endswith(".one")]
    if not peaks:
        return (), ()
    # One guard for each fact a theoretical peak is made of: design, number of cores, clock.
    core = identify(hardware)
    if core is None:
        return (), (_unknown_design(hardware),)
    if not hardware.cores:
        return (), ("no theoretical peaks: the system does not tell how many cores the CPUs are",)
    if any(peak.clock_hz is None for peak in peaks):
        return (), ("no theoretical peaks: the cores' clock could not be measured",)

    found = [_of_peak(hardware, core, peak) for peak in clocked(peaks)]
    notes = []
    if not core.units_512 and any(peak.width == 512 for peak in peaks):
        notes.append(f"no theoretical peaks of 512-bit vectors: {core.design}")
    if hardware.is_virtual and hardware.cores >= len(hardware.cpus):
        notes.append(
            "theoretical peaks take each CPU of this virtual machine for a core, as it says; where the host "
            "gives it hyperthreads, they are up to twice too high"
        )
    return tuple(peak for peak in found if peak), tuple(notes)


def _unknown_design(hardware: Hardware) -> str:
    name = hardware.cpu_model or "no name"
    vendor = hardware.vendor or "vendor not known"
    what = f"{name}; {vendor}, family {hardware.family}, model {hardware.model}"
    return f"no theoretical peaks: the design of this CPU ({what}) is not known here"


def clocked(peaks: Sequence[Ceiling]) -> list[Ceiling]:
    """Each with the highest clock seen with vectors as wide or wider: narrower ones clock no lower, and what
    disturbs a look at the clock makes it look lower."""

    def clock(peak: Ceiling) -> float:
        return max(p.clock_hz or 0.0 for p in peaks if p is peak or p.width >= peak.width > 0)

    return [peak._replace(clock_hz=clock(peak)) for peak in peaks]


def _of_peak(hardware: Hardware, core: CoreDesign, peak: Ceiling) -> Ceiling | None:
    per_cycle = flops_per_cycle(core, peak)
    if per_cycle is None or peak.clock_hz is None:
        return None
    limit = f"{hardware.granted:g} of " if hardware.granted < 1 else ""
    how = (
        f"{limit}{hardware.sockets} socket(s) with {hardware.cores} core(s) x {peak.clock_hz / 1e9:.2f} GHz "
        f"(measured while such or wider vectors ran) x {per_cycle:g} FLOP/cycle ({core.design})"
    )
    return peak._replace(
        name=f"{peak.name}.theory",
        value=hardware.granted * hardware.cores * peak.clock_hz * per_cycle,
        spread=0.0,
        median=None,
        method=how,
        provenance=int(Provenance.ANALYTIC),
    )
