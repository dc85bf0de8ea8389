"""What an event of `perf stat` means: our metric, the factor to base units, and what it may be summed with.

Sources: intel/perfmon event files (FP_ARITH_INST_RETIRED 0xC7, uncore iMC), AMD PPR (fp_ret_sse_avx_ops, data
fabric, UMC), Arm Neoverse TRMs, NVIDIA Grace uncore PMU documentation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import raw as perf_raw
from .row import without_modifiers

CACHE_LINE = 64  # bytes of one CAS command
_BYTES = {
    "Bytes": 1, "Byte": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_SECONDS = {"msec": 1e-3, "ms": 1e-3, "ns": 1e-9, "usec": 1e-6, "us": 1e-6, "s": 1.0, "sec": 1.0}
_JOULES = {"Joules": 1.0, "Joule": 1.0, "J": 1.0, "mJ": 1e-3, "uJ": 1e-6}
_UNITS: dict[str, tuple[float, str]] = {
    **{unit: (float(factor), "byte") for unit, factor in _BYTES.items()},
    **{unit: (factor, "s") for unit, factor in _SECONDS.items()},
    **{unit: (factor, "J") for unit, factor in _JOULES.items()},
    "MHz": (1e6, "Hz"), "GHz": (1e9, "Hz"), "%": (0.01, "1"),
    "W": (1.0, "W"), "Watts": (1.0, "W"), "mW": (1e-3, "W"),
}  # fmt: skip


class EventMeaning(NamedTuple):
    """value = printed number x factor, in `unit`.

    family: "flops", "dram" or "". Of FLOPs, `bits` are the kinds of operation counted, in `group` (a PMU);
    of DRAM traffic, `group` is the set of events that belong together and `part` read, write or both.
    """

    metric: str
    factor: float
    unit: str
    family: str = ""
    group: str = ""
    bits: int = 0
    part: str = ""
    uncore: bool = False
    caution: str = ""


class _Kind(NamedTuple):
    precision: str
    width: str
    flops: int


_ZEN = ("add", "multiply", "divide", "fma")  # the first separated them by precision too
# One bit for each kind of operation; the first eight are the umask of Intel's event 0xC7.
_KINDS = {
    0x01: _Kind("f64", "scalar", 1), 0x02: _Kind("f32", "scalar", 1),
    0x04: _Kind("f64", "128", 2), 0x08: _Kind("f32", "128", 4),
    0x10: _Kind("f64", "256", 4), 0x20: _Kind("f32", "256", 8),
    0x40: _Kind("f64", "512", 8), 0x80: _Kind("f32", "512", 16),
    0x100: _Kind("f16", "scalar", 1), 0x400: _Kind("f16", "128", 8),
    0x800: _Kind("f16", "256", 16), 0x1000: _Kind("f16", "512", 32),
    0x10000: _Kind("all", "add", 1), 0x20000: _Kind("all", "multiply", 1), 0x40000: _Kind("all", "divide", 1),
    0x80000: _Kind("all", "fma", 1), 0x100000: _Kind("bf16", "fma", 1),
    0x200000: _Kind("f32", "all", 1), 0x400000: _Kind("f64", "all", 1),
    0x800000: _Kind("all", "fixed", 1),
    **{1 << 32 + at: _Kind(precision, "fixed", 1) for at, precision in enumerate(("f16", "f32", "f64"))},
    **{0x1000000 << at: _Kind("f32", kind, 1) for at, kind in enumerate(_ZEN)},
    **{0x10000000 << at: _Kind("f64", kind, 1) for at, kind in enumerate(_ZEN)},
}  # fmt: skip
_AMD = 0xFF1F0000
_INTEL_NAMES = {
    "scalar_double": 0x01, "scalar_single": 0x02, "128b_packed_double": 0x04, "128b_packed_single": 0x08,
    "256b_packed_double": 0x10, "256b_packed_single": 0x20, "512b_packed_double": 0x40,
    "512b_packed_single": 0x80, "scalar": 0x03, "4_flops": 0x18, "8_flops": 0x60,
}  # fmt: skip
FLOP_EVENTS = {
    **{f"fp_arith_inst_retired_{name}": bits for name, bits in _INTEL_NAMES.items()},
    "fp_arith_inst_retired2_scalar_half": 0x100, "fp_arith_inst_retired2_128b_packed_half": 0x400,
    "fp_arith_inst_retired2_256b_packed_half": 0x800, "fp_arith_inst_retired2_512b_packed_half": 0x1000,
    "fp_comp_ops_exe_sse_scalar_double": 0x01, "fp_comp_ops_exe_sse_scalar_single": 0x02,
    "fp_comp_ops_exe_sse_packed_double": 0x04, "fp_comp_ops_exe_sse_packed_single": 0x08,
    "simd_fp_256_packed_double": 0x10, "simd_fp_256_packed_single": 0x20,
    "fp_ret_sse_avx_ops_all": _AMD, "fp_ret_sse_avx_ops_any": _AMD, "retired_sse_avx_flops_all": _AMD,
    **{f"fp_ret_sse_avx_ops_{p}_{name}": bit << at for p, bit in (("sp", 0x1000000), ("dp", 0x10000000))
       for at, name in enumerate(("add_sub_flops", "mult_flops", "div_flops", "mult_add_flops"))},
    "fp_ret_sse_avx_ops_add_sub_flops": 0x10000, "fp_ret_sse_avx_ops_mult_flops": 0x20000,
    "fp_ret_sse_avx_ops_div_flops": 0x40000, "fp_ret_sse_avx_ops_mac_flops": 0x80000,
    "fp_ret_sse_avx_ops_bfloat_mac_flops": 0x100000,
    "fp_flops_retired_all": 0x600000, "fp_flops_retired_fp32": 0x200000, "fp_flops_retired_sp": 0x200000,
    "fp_flops_retired_fp64": 0x400000, "fp_flops_retired_dp": 0x400000,
    "fp_fixed_ops_spec": 0x700800000,
    **{f"fp_{p}_fixed_ops_spec": 1 << 32 + at for at, p in enumerate(("hp", "sp", "dp"))},
}  # fmt: skip
_AMD_UMASKS = {0xFF: _AMD, 0x1F: _AMD, 0x0F: _AMD}

_IMC = r"(?:uncore_)?imc(?:_free_running)?(?:_\d+)?/"
_DRAM_EVENTS: tuple[tuple[str, str, int], ...] = (
    # pattern, group, bytes of one count where perf prints no unit
    (rf"{_IMC}cas_count_(?P<part>read|write)/", "cas_count", CACHE_LINE),
    (rf"{_IMC}data_(?P<part>read|write)s?/", "data", CACHE_LINE),
    (rf"{_IMC}data_(?P<part>total)/", "data_total", CACHE_LINE),
    (rf"(?:{_IMC})?unc_m_cas_count(?:_sch\d)?[._](?P<part>rd|wr|all)/?", "unc_m_cas_count", CACHE_LINE),
    (rf"(?:{_IMC})?cas_count(?:_sch\d)?[._](?P<part>rd|wr|all)/?", "CAS_COUNT", CACHE_LINE),
    (r"llc_misses\.mem_(?P<part>read|write)", "llc_misses.mem", CACHE_LINE),
    (r"(?:\w+/)?unc_mc\d_(?P<part>rd|wr)cas_count_freerun/?", "freerun", CACHE_LINE),
    (r"(?:amd_umc(?:_\d+)?/)?umc_cas_cmd\.(?P<part>rd|wr|all)/?", "umc_cas_cmd", CACHE_LINE),
    (r"(?:amd_df/)?dram_channel_data_controller_\d+(?P<part>)/?", "data_controller", CACHE_LINE),
    (
        r"(?:amd_df/)?(?:local|remote)_processor_(?P<part>read|write)_data_beats_cs\d+/?",
        "data_beats",
        CACHE_LINE,
    ),
    (r"nvidia_scf_pmu_\d+/cmem_(?P<part>rd)_data/", "cmem", 32),
    (r"nvidia_scf_pmu_\d+/cmem_(?P<part>wr)_total_bytes/", "cmem", 1),
    (r"hisi_sccl\d+_ddrc\d+(?:_\d+)?/flux_(?P<part>rd|wr)/", "flux", 32),
)
_DRAM = tuple((re.compile(pattern), group, size) for pattern, group, size in _DRAM_EVENTS)
_PARTS = {"read": "read", "rd": "read", "write": "write", "wr": "write"}
_RAW_CAS = {
    (0x04, 0x03): "read", (0x04, 0x0F): "read", (0x04, 0x0C): "write", (0x04, 0x30): "write",
    (0x05, 0xCF): "read", (0x06, 0xCF): "read", (0x05, 0xF0): "write", (0x06, 0xF0): "write",
}  # fmt: skip
_DATA_FABRIC = {0x07, 0x47, 0x87, 0xC7, 0x107, 0x147, 0x187, 0x1C7}
_ENERGY = {
    "pkg": "energy_package_joules", "ram": "energy_dram_joules", "cores": "energy_cores_joules",
    "core": "energy_cores_joules", "gpu": "energy_gpu_joules", "psys": "energy_psys_joules",
}  # fmt: skip
_ALIASES = {"cpu-cycles": "cycles", "branch-instructions": "branches", "faults": "page-faults"}
_PLAIN = re.compile(r"[a-zA-Z0-9]+(?:-[a-z0-9]+)*")
_CORE_PMU = re.compile(r"(cpu|cpu_core|cpu_atom|cpu_lowpower|armv\w+|default_core)/(.*)/")
_UNCORE = re.compile(
    r"(?:uncore_|amd_df|amd_umc|amd_l3|power|nvidia_\w+_pmu|hisi_|unc_|llc_misses\.|umc_|arm_)"
)


def meaning(printed: str, unit: str, text: str = "0") -> EventMeaning:
    """What the event `printed` counts. text: the number as printed, which shows a clock's unit if none is."""
    bare = without_modifiers(printed.split(" [", 1)[0]).lower()
    core = _CORE_PMU.fullmatch(bare)
    inner = core[2] if core else bare
    group = core[1] if core and core[1] != "cpu" else ""  # a PMU of its own kind of core
    energy = re.fullmatch(r"power(?:_core)?/energy-(\w+)/", inner)
    if energy and unit in _JOULES and energy[1] in _ENERGY:
        return EventMeaning(_ENERGY[energy[1]], _JOULES[unit], "J", uncore=True)
    found = _flops(group, inner, unit) or _time(inner, unit, text) or _dram(bare, unit)
    if found is not None:
        return found
    factor, base = _UNITS.get(unit, (1.0, unit or "1"))
    name = without_modifiers(printed) if "/" not in printed else (inner if core else printed)
    metric = _ALIASES.get(name, name) if _PLAIN.fullmatch(name) else printed
    return EventMeaning(metric, factor, base, group=group, uncore=bool(_UNCORE.match(bare)))


def flop_bits(name: str) -> int:
    """The kinds of operation that a FLOP event counts, 0 where it is none."""
    bits = FLOP_EVENTS.get(re.sub(r"[.:]", "_", name.lower()), 0)
    return bits or _raw_flops(name)[0]


def flop_meaning(bits: int, group: str = "") -> EventMeaning | None:
    """None where the kinds have different FLOPs a count, so that no factor is right."""
    kinds = [kind for bit, kind in _KINDS.items() if bits & bit]
    if not kinds or len({kind.flops for kind in kinds}) != 1:
        return None
    precisions, widths = {kind.precision for kind in kinds}, {kind.width for kind in kinds}
    precision = kinds[0].precision if len(precisions) == 1 else "all"
    width = kinds[0].width if len(widths) == 1 else "all"
    return EventMeaning(f"flops.{precision}.{width}", float(kinds[0].flops), "FLOP", "flops", group, bits)


def _flops(group: str, inner: str, unit: str) -> EventMeaning | None:
    if unit:
        return None
    bits, caution = FLOP_EVENTS.get(re.sub(r"[.:]", "_", inner), 0), ""
    if inner.startswith(("fp_comp_ops_exe", "simd_fp_256")):
        caution = "FP_COMP_OPS_EXE counts what is executed, replays too: its FLOPs are an upper bound"
    if inner.endswith("fixed_ops_spec"):
        caution = f"{inner} is speculative and leaves out SVE: see {inner.replace('fixed', 'scale')}"
    if not bits:
        bits, caution = _raw_flops(inner if re.fullmatch(r"r[0-9a-f]+", inner) else f"cpu/{inner}/")
    found = flop_meaning(bits, group) if bits else None
    return found._replace(caution=caution) if found else None


def _raw_flops(event: str) -> tuple[int, str]:
    code = perf_raw.code(event)
    if code is None:
        return 0, ""
    number, umask = code
    if number == 0xC7 and 0 < umask <= 0xFF:
        return umask, f"{event} is taken for Intel's FP_ARITH_INST_RETIRED, whose code it is"
    if number == 0xCF and umask in (0x01, 0x04, 0x08, 0x10):
        return umask << 8, f"{event} is taken for Intel's FP_ARITH_INST_RETIRED2, whose code it is"
    if number == 0x03 and umask in _AMD_UMASKS:
        return _AMD, f"{event} is taken for AMD's fp_ret_sse_avx_ops.all, whose code it is"
    return 0, ""


def _time(inner: str, unit: str, text: str) -> EventMeaning | None:
    if inner not in ("task-clock", "cpu-clock", "duration_time", "user_time", "system_time"):
        return None
    if unit and unit not in _SECONDS:
        return None
    # Without a unit whole numbers are ns; perf before 4.18 printed ms with six decimals.
    decimals = re.search(r"[.,]\d{6}$|[.,]\d{1,2}$", text)
    factor = _SECONDS[unit] if unit else (1e-3 if decimals else 1e-9)
    return EventMeaning(inner, factor, "s")


def _dram(bare: str, unit: str) -> EventMeaning | None:
    if unit and unit not in _BYTES:
        return None
    raw = _raw_dram(bare)
    if raw:
        return _moved(raw[0], raw[1], _BYTES.get(unit, CACHE_LINE))
    for pattern, group, size in _DRAM:
        match = pattern.fullmatch(bare)
        if match:
            return _moved(group, _PARTS.get(match["part"], "both"), _BYTES[unit] if unit else size)
    return None


def _moved(group: str, part: str, factor: int) -> EventMeaning:
    name = "dram_bytes" if part == "both" else f"dram_{part}_bytes"
    return EventMeaning(name, float(factor), "byte", "dram", group, part=part, uncore=True)


def _raw_dram(bare: str) -> tuple[str, str] | None:
    code = perf_raw.code(bare) if bare.startswith(("uncore_imc", "imc", "amd_df", "amd_umc")) else None
    if code is None:
        return None
    if bare.startswith("amd_df"):
        return ("data_controller", "both") if code[0] in _DATA_FABRIC and code[1] == 0x38 else None
    if bare.startswith("amd_umc"):
        masks = re.search(r"rdwrmask=(?:0x)?([12])\b", bare)
        return ("umc_cas_cmd", "read" if masks[1] == "1" else "write") if code[0] == 0x0A and masks else None
    part = _RAW_CAS.get(code)
    return ("raw CAS", part) if part else None
