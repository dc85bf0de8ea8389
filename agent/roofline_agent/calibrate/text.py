"""A calibration as lines of text: a table that grows as it is measured, the sweep, the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline_agent.calibrate.calibration import Calibration, Ceiling, SweepPoint
from roofline_agent.calibrate.levels import size_text
from roofline_agent.records import Provenance

_UNITS = {"FLOP/s": (1e9, "GFLOP/s"), "byte/s": (1e9, "GB/s"), "s": (1e-6, "us")}
_NAME_WIDTH = 26
HEADER = f"{'ceiling':<{_NAME_WIDTH}} {'best':>10} {'':<8} {'median':>10} {'spread':>7} {'clock':>9}  CPUs"


def row(ceiling: Ceiling) -> str:
    """One line below HEADER."""
    scale, unit = _UNITS.get(ceiling.unit, (1.0, ceiling.unit))
    device = f"{ceiling.device} " if ceiling.device else ""
    line = f"{device + ceiling.name:<{_NAME_WIDTH}} {ceiling.value / scale:>10.1f} {unit:<8} "
    median = "-" if ceiling.median is None else f"{ceiling.median / scale:.1f}"
    threads = "" if ceiling.threads is None else str(ceiling.threads)
    clock = "-" if ceiling.clock_hz is None else f"{ceiling.clock_hz / 1e9:.2f} GHz"
    return f"{line}{median:>10} {ceiling.spread:>7.1%} {clock:>9}  {threads:>4}".rstrip()


def theory_lines(calibration: Calibration) -> Iterator[str]:
    """The theoretical peaks of the CPUs, each with the share of it that was measured."""
    measured = {(c.device, c.name): c.value for c in calibration.ceilings}
    for ceiling in calibration.ceilings:
        if ceiling.provenance != Provenance.ANALYTIC or ceiling.device or not ceiling.value:
            continue
        value = measured.get((ceiling.device, ceiling.name.removesuffix(".theory")))
        share = "" if value is None else f", of which {value / ceiling.value:.0%} measured"
        yield f"{ceiling.name:<{_NAME_WIDTH}} {ceiling.value / 1e9:>10.1f} GFLOP/s  theoretical{share}"


def sweep_lines(points: Sequence[SweepPoint]) -> Iterator[str]:
    """The curves, GB/s: a row a working set, a column an operation."""
    for threads in dict.fromkeys(point.threads for point in points):
        mine = [point for point in points if point.threads == threads]
        curves = list(dict.fromkeys((point.operation, point.streaming) for point in mine))
        value = {(p.operation, p.streaming, p.bytes): p.value for p in mine}
        heads = ""
        for operation, streaming in curves:
            head = operation
            if operation != "read":
                head += ", non-temporal" if streaming else ", normal"
            heads += f"{head:>20}"
        yield f"sweep, GB/s, {threads} CPU{'s' if threads > 1 else ''}:"
        yield f"  {'working set':>11}{heads}"
        for size in sorted({point.bytes for point in mine}):
            line = f"  {size_text(size):>11}"
            for curve in curves:
                rate = value.get((*curve, size))
                shown = "-" if rate is None else f"{rate / 1e9:.1f}"
                line += f"{shown:>20}"
            yield line


def note_lines(calibration: Calibration) -> Iterator[str]:
    for note in calibration.notes:
        yield f"note: {note}"
