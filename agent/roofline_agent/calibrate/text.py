"""A calibration as lines of text: a table that grows as it is measured, the sweep, the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from roofline_agent.calibrate.records import Calibration, Ceiling, SweepPoint
from roofline_agent.records import Provenance

_UNITS = {"FLOP/s": (1e9, "GFLOP/s"), "byte/s": (1e9, "GB/s"), "s": (1e-6, "us")}
_NAME_WIDTH = 26
HEADER = f"{'ceiling':<{_NAME_WIDTH}} {'best':>10} {'':<8} {'median':>10} {'spread':>7} {'clock':>9}  CPUs"
_BAR = 40


def row(ceiling: Ceiling) -> str:
    """One line below HEADER."""
    scale, unit = _UNITS.get(ceiling.unit, (1.0, ceiling.unit))
    device = f"{ceiling.device} " if ceiling.device else ""
    line = f"{device + ceiling.name:<{_NAME_WIDTH}} {ceiling.value / scale:>10.1f} {unit:<8} "
    median = "-" if ceiling.median is None else f"{ceiling.median / scale:.1f}"
    threads = "" if ceiling.threads is None else str(ceiling.threads)
    return f"{line}{median:>10} {ceiling.spread:>7.1%} {_clock(ceiling)}  {threads:>4}".rstrip()


def theory_lines(calibration: Calibration) -> Iterator[str]:
    """The theoretical peaks of the CPUs, each with the share of it that was measured."""
    measured = {(c.device, c.name): c.value for c in calibration.ceilings}
    for ceiling in calibration.ceilings:
        if ceiling.provenance != Provenance.ANALYTIC or ceiling.device or not ceiling.value:
            continue
        value = measured.get((ceiling.device, ceiling.name.removesuffix(".theory")))
        share = "" if value is None else f", of which {value / ceiling.value:.0%} measured"
        yield f"{ceiling.name:<{_NAME_WIDTH}} {ceiling.value / 1e9:>10.1f} GFLOP/s  theoretical{share}"


def _clock(ceiling: Ceiling) -> str:
    return f"{'-':>9}" if ceiling.clock_hz is None else f"{ceiling.clock_hz / 1e9:>5.2f} GHz"


def sweep_lines(points: Sequence[SweepPoint]) -> Iterator[str]:
    """The curves: bandwidth against working set, with bars on one linear scale for each curve."""
    for (operation, streaming, threads), group in groupby(points, key=lambda point: tuple(point[:3])):
        stores = "" if operation == "read" else ", non-temporal stores" if streaming else ", normal stores"
        yield f"sweep: {operation}{stores}, {threads} CPU{'s' if threads > 1 else ''}"
        curve = list(group)
        most = max(point.value for point in curve)
        for point in curve:
            bar = "#" * max(1, round(_BAR * point.value / most))
            yield f"  {_size(point.bytes):>9} {point.value / 1e9:>9.1f} GB/s  {bar}"


def _size(count: int) -> str:
    return f"{count / 2**20:.0f} MiB" if count >= 1 << 22 else f"{count / 1024:.0f} KiB"


def note_lines(calibration: Calibration) -> Iterator[str]:
    for note in calibration.notes:
        yield f"note: {note}"
