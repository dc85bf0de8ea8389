"""A recording as text: its tool, its values, its warnings."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.texts import prefix_of

from .collector import Collector
from .document import warning
from .recording import Kernel

SHOWN = 10


def summarise(found: Collector, name: str) -> Iterator[str]:
    """Lines of text; '-' is a value that the file does not hold."""
    yield f"{name}: {found.tool} {found.version}".rstrip()
    if found.facts:
        yield "  " + ", ".join(f"{key} {value}" for key, value in found.facts.items())
    yield from _kernels([*([found.run] if found.run else []), *found.kernels])
    if len(found.counters):
        yield f"  {len(found.counters)} counter values"
    for phase in found.phases[:SHOWN]:
        yield f"  {phase.name}: {phase.count} times, {phase.time_s:.6g} s"
    if found.throughput:
        speed = found.throughput
        rate = f"{speed.examples_per_s:g}" if speed.examples_per_s is not None else "-"
        speaker = f" ({speed.speaks_for})" if speed.speaks_for else ""
        yield f"  {rate} {speed.unit}/s{speaker}, {speed.step_lines} step lines"
    for ceiling in found.ceilings:
        yield f"  ceiling {ceiling.name}: {_scaled(ceiling.value)}{ceiling.unit}"
    for one in found.warnings:
        yield f"  warning: {warning(one)}"


def _kernels(kernels: list[Kernel]) -> Iterator[str]:
    if not kernels:
        return
    yield f"  {'launches':>9} {'time':>10} {'FLOP':>9} {'FLOP/s':>9} {'FLOP/B':>8}  kernel"
    for k in kernels[:SHOWN]:
        intensity = next(
            (v for v in (k.intensity.get(x) for x in ("dram", "minimum")) if v is not None), None
        )
        seconds = "-" if k.time_s is None else f"{k.time_s:.4g} s"
        yield (
            f"  {k.launches:>9} {seconds:>10} {_scaled(k.flops):>9} {_scaled(k.flops_per_s):>9}"
            f" {'-' if intensity is None else f'{intensity:.3g}':>8}  {k.name[:60]}"
        )
    if len(kernels) > SHOWN:
        yield f"  ... and {len(kernels) - SHOWN} more"


def _scaled(value: float | None) -> str:
    if value is None:
        return "-"
    scale, prefix = prefix_of(value)
    return f"{value / scale:.4g} {prefix}"
