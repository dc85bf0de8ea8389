"""Theoretical peaks: cores x clock x FLOP per cycle, to stand beside the measured ones and never for them.

Pure. The FLOP per cycle are those of the core's design, known by vendor, family, model and flags (Intel 64
and IA-32 Architectures Optimization Reference Manual; AMD Software Optimization Guides of families 17h, 19h
and 1Ah). The clock is the one that the cores had while the same ceiling, or one of wider vectors, was
measured, so that a difference is the code's and not the clock's. A core that is not known here has no
theoretical peak.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.records import Provenance

_AMX_BF16_PER_CYCLE = 1024  # Intel: 2048 operations on int8, half of that on bf16
_BITS = {"f64": 64, "f32": 32, "f16": 16}


class Core(NamedTuple):
    """What a core starts in a cycle."""

    design: str
    units: int  # vectors of up to 256 bits
    units_512: int = 0
    fma: bool = True  # else a multiplication and an addition are started by a unit each
    widest: int = 256  # of a unit's path for the vectors up to 256 bits
    tiles: bool = False


_HASWELL = Core("Haswell to Skylake client: 2 FMA units of 256 bits", 2)
_SKYLAKE_2 = Core("Skylake or Cascade Lake server: 2 FMA units of 512 bits", 2, 2)
_SKYLAKE_1 = Core("Skylake or Cascade Lake server: 1 FMA unit of 512 bits", 2, 1)
_SKYLAKE = Core("Skylake or Cascade Lake server: 1 or 2 FMA units of 512 bits, not known of this part", 2)
_ICE_CLIENT = Core("Ice Lake to Rocket Lake client: 1 FMA unit of 512 bits", 2, 1)
_ICE_D = Core("Ice Lake-D: 1 or 2 FMA units of 512 bits, not known of this part", 2)
_ICE_SERVER = Core("Ice Lake server: 2 FMA units of 512 bits", 2, 2)
_SAPPHIRE = Core("Sapphire Rapids or newer server: 2 FMA units of 512 bits, AMX", 2, 2, tiles=True)
_SANDY = Core("Sandy or Ivy Bridge: a multiplier and an adder of 256 bits", 1, fma=False)
_NEHALEM = Core("Nehalem or Westmere: a multiplier and an adder of 128 bits", 1, fma=False, widest=128)
_ZEN_1 = Core("Zen: 2 FMA units of 128 bits", 2, widest=128)
_ZEN_2 = Core("Zen 2 or Zen 3: 2 FMA units of 256 bits", 2)
_ZEN_4 = Core("Zen 4: 2 FMA units of 256 bits, two cycles for 512", 2, 1)
_ZEN_5 = Core("Zen 5: 2 FMA units of 512 bits", 2, 2)

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
# Gold 5222 and 53xx (Cooper Lake) and of Xeon D sources differ or say nothing.
_ONE_UNIT = re.compile(r"Bronze|Silver|Gold 5[12]\d\d")
_TWO_UNITS = re.compile(r"Platinum|Gold 5122\b|Gold 6\d{3}|W-\d{4}|Core\(TM\) i[79]")
_UNSURE = re.compile(r"Gold 5222\b")
_BRAND = re.compile(r"Xeon|Core\(TM\)")


def identify(machine: Machine) -> Core | None:
    """The core's design; None: not known, or not to be told."""
    if machine.vendor == "GenuineIntel" and machine.family == 6:
        # All cores with tiles have both units; a virtual machine may state some other model.
        if "amx_tile" in machine.flags:
            return _SAPPHIRE
        if machine.model == _SKYLAKE_SERVER:
            return _skylake_server(machine.cpu_model)
        return _INTEL_FAMILY_6.get(machine.model)
    if machine.vendor == "AuthenticAMD":
        return _amd(machine)
    return None


def _skylake_server(name: str) -> Core | None:
    if not _BRAND.search(name) or not re.search(r"\d{4}|Platinum", name):
        return None
    if _UNSURE.search(name):
        return _SKYLAKE
    if _TWO_UNITS.search(name):
        return _SKYLAKE_2
    return _SKYLAKE_1 if _ONE_UNIT.search(name) else _SKYLAKE


def _amd(machine: Machine) -> Core | None:
    if machine.family == 0x17:
        return _ZEN_1 if machine.model < 0x30 else _ZEN_2
    if machine.family == 0x19:
        return _ZEN_4 if "avx512f" in machine.flags else _ZEN_2
    # Of Zen 5 some mobile parts have narrower units.
    server_or_desktop = machine.model < 0x20 or 0x40 <= machine.model < 0x50
    return _ZEN_5 if machine.family == 0x1A and server_or_desktop else None


def flops_per_cycle(core: Core, ceiling: Ceiling) -> float | None:
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


def theoretical(machine: Machine, measured: Sequence[Ceiling]) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """For each measured peak of all CPUs its theoretical one, where it is known, and why there is none."""
    peaks = [c for c in measured if c.kind == "compute" and not c.device and not c.name.endswith(".one")]
    if not peaks:
        return (), ()
    core = identify(machine)
    if core is None:
        return (), (f"no theoretical peaks: {_unknown(machine)}",)
    if not machine.cores:
        return (), ("no theoretical peaks: the system does not tell how many cores the CPUs are",)
    if any(peak.clock_hz is None for peak in peaks):
        return (), ("no theoretical peaks: the cores' clock could not be measured",)
    return tuple(_theory(machine, core, peaks)), (*_without_512(core, peaks), *_virtual(machine))


def _without_512(core: Core, peaks: Iterable[Ceiling]) -> tuple[str, ...]:
    if core.units_512 or all(peak.width != 512 for peak in peaks):
        return ()
    return (f"no theoretical peaks of 512-bit vectors: {core.design}",)


def _virtual(machine: Machine) -> tuple[str, ...]:
    if not machine.is_virtual or machine.cores < len(machine.cpus):
        return ()
    return (
        "theoretical peaks take each CPU of this virtual machine for a core, as it says; where the host "
        "gives it hyperthreads, they are up to twice too high",
    )


def _unknown(machine: Machine) -> str:
    what = f"{machine.vendor or 'vendor not said'}, family {machine.family}, model {machine.model}"
    return f"the design of this CPU ({machine.cpu_model or 'no name'}; {what}) is not known here"


def clocked(peaks: Sequence[Ceiling]) -> list[Ceiling]:
    """Each with the highest clock seen with vectors as wide or wider: narrower ones clock no lower, and what
    disturbs a look at the clock makes it look lower."""

    def clock(peak: Ceiling) -> float:
        return max(p.clock_hz or 0.0 for p in peaks if p is peak or p.width >= peak.width > 0)

    return [peak._replace(clock_hz=clock(peak)) for peak in peaks]


def _theory(machine: Machine, core: Core, peaks: Iterable[Ceiling]) -> Iterable[Ceiling]:
    limit = f"{machine.granted:g} of " if machine.granted < 1 else ""
    for peak in clocked(list(peaks)):
        per_cycle = flops_per_cycle(core, peak)
        if per_cycle is None or peak.clock_hz is None:
            continue
        how = (
            f"{limit}{machine.sockets} socket(s) with {machine.cores} core(s) "
            f"x {peak.clock_hz / 1e9:.2f} GHz "
            f"(measured while such or wider vectors ran) x {per_cycle:g} FLOP/cycle ({core.design})"
        )
        yield peak._replace(
            name=f"{peak.name}.theory",
            value=machine.granted * machine.cores * peak.clock_hz * per_cycle,
            spread=0.0,
            median=None,
            method=how,
            provenance=int(Provenance.ANALYTIC),
        )
