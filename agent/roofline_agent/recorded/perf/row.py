"""One line of `perf stat` in whatever form it was printed, and how perf writes numbers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

NOT_COUNTED = "<not counted>"
NOT_SUPPORTED = "<not supported>"
# fmt: off
UNITS = frozenset({
    "msec", "ms", "sec", "s", "ns", "usec", "us", "Joules", "Joule", "J", "mJ", "uJ", "W", "mW", "Watts",
    "Bytes", "Byte", "B", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB",
    "MHz", "GHz", "%", "C", "°C", "mC",
})
# fmt: on

# What is between groups of three digits in some locale; U+FFFD: a no-break space that was not UTF-8.
_GROUPING = "'’  \u00a0\u2007\u2009\u202f\ufffd"
_SPLIT = re.compile(rf"[.,{_GROUPING}]")
_GROUPS = re.compile(r"\d{1,3}(?: \d{3})+|\d{1,2}(?: \d\d)* \d{3}")  # by thousands; in India 12 34 567
_GENERIC = re.compile(
    r"(cpu-|ref-|bus-)?cycles|instructions|branches|faults|task-clock|cpu-clock|cs|migrations"
    r"|(duration|user|system)_time|dummy|bpf-output"
    r"|[A-Za-z0-9]+(-[a-z]+)*-(misses|miss|hits|hit|loads|load|stores|store|references|prefetches"
    r"|prefetch|switches|migrations|faults|frontend|backend|instructions|branches|access|accesses)"
)
_MODIFIERS = re.compile(r"[ukhGHIpPSDWebR]{1,8}")
_NAMED = re.compile(
    r"[A-Za-z][\w\-]*/[^/\s][^/]*/\w*"  # pmu/event/
    r"|r[0-9a-fA-F]{2,16}"
    r"|[A-Za-z][A-Za-z0-9]*_\w*(\.[\w.]+)*"  # fp_arith_inst_retired.scalar_double
    r"|[A-Za-z]\w*\.[A-Za-z0-9]\w*(\.\w+)*"  # exe.amx_busy
    r"|[a-z_0-9]+:[a-z_0-9]{4,}"  # sched:sched_switch
)
_OWN = re.compile(
    r"\w+_retired2?\.\w+|fp_ret_sse_avx_ops\.\w+|unc(?:ore)?_\w+(\.\w+)?|umc_cas_cmd\.\w+|dram_channel_data_\w+"
)
_WORD = re.compile(r"[A-Za-z_][^\s#]*( \[\w+\])?")
METRIC_UNITS = {
    "%": (0.01, "1"), "MB/s": (1e6, "byte/s"), "GB/s": (1e9, "byte/s"), "MiB/s": (2.0**20, "byte/s"),
    "GiB/s": (2.0**30, "byte/s"), "Bytes/s": (1.0, "byte/s"),
}  # fmt: skip
_SCOPE = re.compile(r"(S\d+(?:-[A-Z]\w*)*|N\d+|D\d+|CPU\s*\d+)$")


class DerivedMetric(NamedTuple):
    """A metric that perf computed from what it counted: value = printed x factor, in unit."""

    name: str
    printed: float
    factor: float
    unit: str
    printed_unit: str


class PerfRow(NamedTuple):
    """value None: `text` is the reason. coverage: the printed share of the time it was counted, 0..1."""

    event: str
    text: str
    value: float | None
    unit: str = ""
    t_s: float | None = None
    scope: str = ""
    cgroup: str = ""
    runtime_ns: float | None = None
    coverage: float | None = None
    derived: DerivedMetric | None = None
    cpus: int | None = None  # how many a row puts together


def is_mark(text: str) -> bool:
    return text in (NOT_COUNTED, NOT_SUPPORTED)


def without_modifiers(event: str) -> str:
    """The event without `:u` or the letters after the last slash; tracepoints keep their second part."""
    if event.endswith("/"):
        return event
    head, colon, tail = event.rpartition(":")
    if colon and _MODIFIERS.fullmatch(tail):
        return head
    head, slash, tail = event.rpartition("/")
    if slash and "/" in head and _MODIFIERS.fullmatch(tail):
        return head + "/"
    return event


@lru_cache(maxsize=4096)
def is_event(name: str) -> bool:
    """Whether the name alone shows that it is an event of perf's."""
    bare = without_modifiers(name.split(" [", 1)[0])
    return bool(_GENERIC.fullmatch(bare) or _NAMED.fullmatch(bare))


@lru_cache(maxsize=4096)
def is_surely_event(name: str) -> bool:
    """Whether hardly anything else has that name: sources and logs are full of names with dots and `_`."""
    bare = without_modifiers(name.split(" [", 1)[0])
    return "/" in bare or any(known.fullmatch(bare) for known in (_GENERIC, _OWN))


@lru_cache(maxsize=4096)
def may_be_event(name: str) -> bool:
    """Whether it can be an event where perf's output is known to stand."""
    return bool(_WORD.fullmatch(name)) and name not in UNITS


@lru_cache(maxsize=4096)
def scope(column: str) -> str:
    """ "S0-D0-C1" as "core S0-D0-C1", "CPU3" as "cpu 3"; "" for what is no place in the machine."""
    column = column.strip()
    if not _SCOPE.match(column):
        return ""
    if column.startswith("CPU"):
        return f"cpu {int(column[3:])}"
    if column[0] in "ND":
        return f"{'numa' if column[0] == 'N' else 'die'} {column[1:]}"
    parts = column.split("-")
    if len(parts) == 1:
        return f"socket {column[1:]}"
    kinds = {"D": "die", "C": "core", "L": "cache"}
    kind = "cluster" if parts[-1].startswith("CLS") else kinds.get(parts[-1][0], "part")
    return f"{'cache' if 'ID' in column else kind} {column}"


def grouped_number(text: str) -> float | None:
    """A number as a locale groups it: "1,234.56", "1.234,56", "1 234", "1'234"; None where no locale would.

    A single mark before exactly three digits groups them: perf prints two or six decimals, or none.
    """
    text = text.strip()
    negative, text = text.startswith("-"), text.lstrip("-")
    marks = _SPLIT.findall(text)
    groups = _SPLIT.split(text)
    fraction = ""
    if marks and marks[-1] in ".,":
        if len(marks) == 1:
            is_decimal = len(groups[-1]) != 3 or len(groups[0]) > 3 or groups[0] == "0"
        else:
            is_decimal = marks.count(marks[-1]) == 1
        if is_decimal:
            marks.pop()
            fraction = "." + groups.pop()
    if marks and not (len(set(marks)) == 1 and _GROUPS.fullmatch(" ".join(groups))):
        return None  # a damaged line: two numbers run together
    return _float("".join(groups) + fraction, negative)


def plain_number(text: str) -> float | None:
    """A number without grouping, whose decimals stand after a point or a comma."""
    if len(text) > 40 or not text[-1:].isdigit():
        return None
    return _float(text.replace(",", ".").lstrip("-"), text.startswith("-"))


def _float(text: str, negative: bool) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if value != value or value in (float("inf"), float("-inf")) or "_" in text:
        return None
    return -value if negative else value


def derived(words: str, printed: float | None) -> DerivedMetric | None:
    """A derived metric from the words behind its number; None where it is a mere rate of its own row.

    Only one word is a name (DRAM_BW_Use, GFLOPs); "insn per cycle" or "M/sec" restate the row.
    """
    name, unit = _metric_name(words)
    if not name or printed is None:
        return None
    return DerivedMetric(name, printed, *METRIC_UNITS.get(unit, (1.0, unit or "1")), unit)


@lru_cache(maxsize=4096)
def _metric_name(words: str) -> tuple[str, str]:
    unit, _, name = words.strip().rpartition("  ")
    unit, name = unit.strip(), name.strip()
    if name.startswith("%"):
        unit, name = "%", name[1:].strip()
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name) or name in ("GHz", "nan"):
        return "", ""
    return name, unit
