"""Reads what likwid-bench prints as ceilings: bandwidth of its memory tests, FLOP/s of its peakflops tests.

The file of a memory test has the size of its working set, not the memory level: only sizes beyond
all caches (DRAM) or within any first level become ceilings. MByte and MFlop are 1e6. What the test's own
arrays move is counted: with normal stores memory moves 8 bytes more an element, as the method notes.
"""

from __future__ import annotations

import re

from .collector import Collector
from .numbers import finite
from .recording import Counter, RecordedCeiling
from .text import Text

_TITLE = "LIKWID MICRO BENCHMARK"
_FIELD = re.compile(
    r"(Test|Time|Iterations|Size \(Byte\)|Size per thread|MFlops/s|MByte/s|CPU Clock):\s*([\w.+-]+)"
)
_THREADS = re.compile(r"Using (\d+) threads")
_MEMORY = re.compile(r"(clload|clstore|clcopy|[a-z]+?)(_sp)?(_mem)?((?:_(?:sse|avx|avx2|avx512|fma))*)$")
_PEAK = re.compile(r"peakflops(_sp)?(?:_(sse|avx|avx512))?(_fma)?$")
_OPERATIONS = {"stream": "triad", "load": "read", "sum": "read"}
_STORING = ("stream", "triad", "copy", "store", "update", "daxpy")  # tests whose arrays are written
_WIDTHS = {None: 0, "sse": 128, "avx": 256, "avx512": 512}
_DRAM_BYTES, _L1_BYTES = 128 << 20, 32 << 10
MAX_LINE = 1000


def sniff(head: str) -> int:
    """92: its title; likwid-perfctr around it may have its tables in the same file."""
    return 92 if _TITLE in head else 0


def read(text: Text, found: Collector) -> None:
    """One ceiling for each run that shows which limit it measured; every rate as a counter."""
    found.tool = "likwid-bench"
    run: dict[str, str] = {}
    threads = ""
    best: dict[str, RecordedCeiling] = {}
    for line in text.lines():
        if len(line) > MAX_LINE:
            continue
        line = line.strip()
        if line == _TITLE:
            _finish(run, threads, best, found)
            run, threads = {}, ""
        field, count = _FIELD.match(line), _THREADS.match(line)
        if field:
            run.setdefault(field[1], field[2])
        if count:
            threads = count[1]
        if line.startswith(("ERROR", "WARNING")):
            found.warn(line[:200], text.line)
    _finish(run, threads, best, found)
    found.ceilings.extend(best.values())
    if not best:
        found.warn(
            "no ceiling: no test got to its end, or none went through DRAM or stayed in the first level"
        )


def _finish(run: dict[str, str], threads: str, best: dict[str, RecordedCeiling], found: Collector) -> None:
    """Takes in the run whose lines have all been seen; the best of each kind counts."""
    test = run.get("Test", "")
    if not test:
        return
    peak = _PEAK.match(test)
    printed, unit = ("MFlops/s", "FLOP/s") if peak else ("MByte/s", "byte/s")
    rate = finite(run.get(printed, ""))
    if rate is None or rate <= 0:
        found.warn(f"{test} has no rate: it did not get to its end")
        return
    value = rate * 1e6
    found.counters.append(
        Counter(test, printed, value, unit, "node")._replace(kind="gauge", printed=rate, printed_unit=printed)
    )
    ceiling: RecordedCeiling | None
    if peak:
        precision = "f32" if peak[1] else "f64"
        width = _WIDTHS[peak[2]]
        # Its plain and SSE tests multiply and add by an instruction each.
        name = f"peak.{precision}.{width or 'scalar'}" + ("" if peak[3] else ".mul_add")
        width = width or (32 if peak[1] else 64)
        ceiling = RecordedCeiling(name, "compute", "", precision, value, "FLOP/s", "", width)
    else:
        ceiling = _memory_ceiling(test, run, value, found)
    if ceiling is None:
        return
    method = [f"likwid-bench {test}"]
    if threads:
        method.append(f"{threads} threads")
    if "Size (Byte)" in run:
        method.append(f"working set {run['Size (Byte)']} byte")
    if "Iterations" in run:
        method.append(f"{run['Iterations']} iterations")
    # Those with other stores are another measurement, and are kept separately.
    key = ceiling.name + ceiling.method
    if key not in best or best[key].value < ceiling.value:
        best[key] = ceiling._replace(method=", ".join(method) + ceiling.method)


def _memory_ceiling(test: str, run: dict[str, str], value: float, found: Collector) -> RecordedCeiling | None:
    match = _MEMORY.match(test)
    size, share = finite(run.get("Size (Byte)", "")), finite(run.get("Size per thread", ""))
    if match is None or size is None:
        found.warn(f"{test}: not a test known here, or without its size; left out as a ceiling")
        return None
    level = "dram" if size >= _DRAM_BYTES else "l1" if share and share <= _L1_BYTES else ""
    if not level:
        found.warn(f"{test}: which level {size:.0f} byte lie in the file does not say; left out as a ceiling")
        return None
    # Its "triad" multiplies two arrays and adds a third: more than STREAM's, which it calls "stream".
    operation = {"triad": "four_arrays"}.get(match[1], _OPERATIONS.get(match[1], match[1]))
    stores = ""
    if match[1] in _STORING:
        stores = "; non-temporal stores" if match[3] else "; normal stores, write-allocate is not counted"
    # Lines are touched at one element each, and all of a line counted.
    note = "; one element of each line" if match[1].startswith("cl") else ""
    return RecordedCeiling(f"{level}.{operation}", "memory", level, "", value, "byte/s", f"{stores}{note}")
