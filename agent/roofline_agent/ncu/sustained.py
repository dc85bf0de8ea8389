"""Peaks of a GPU as Nsight Compute reports them: sustained units a cycle x the clock that it measured.

As in Nsight Compute's own roofline sections: FLOP/s = ffma's `.sum.peak_sustained` x 2 x SM clock, bytes/s =
`dram__bytes.sum.peak_sustained` x memory clock. These are the tool's figures for the hardware, at a clock
measured while an empty kernel ran; no kernel was seen to reach them.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..recorded.collector import Collector
from ..recorded.errors import RecordedError
from ..recorded.ncu.launches import LaunchBlock
from ..recorded.ncu.metrics import LaunchMetrics
from ..recorded.ncu.other_lines import OtherLines
from ..recorded.ncu.pages import launches
from ..recorded.text import Text
from . import command, diagnosis, session
from .metrics import TIME, base, offered

SM_CLOCK, DRAM_CLOCK = "sm__cycles_elapsed.avg.per_second", "dram__cycles_elapsed.avg.per_second"
L2_CLOCK = "lts__cycles_elapsed.avg.per_second"
PEAK = ".sum.peak_sustained"
_SASS = "sm__sass_thread_inst_executed_op_{}_pred_on"
_PATH = "sm__ops_path_tensor_src_{}"
TENSOR_PIPE = "sm__inst_executed_pipe_tensor"
V100_FLOPS_AN_INSTRUCTION = 512  # of the tensor pipe; of no other GPU


class Limit(NamedTuple):
    """A counter whose sustained peak is a ceiling."""

    name: str  # of the ceiling
    counter: str
    factor: float  # FLOPs or bytes of a count
    clock: str


LIMITS = (
    Limit("peak.f64", _SASS.format("dfma"), 2, SM_CLOCK),
    Limit("peak.f64", _PATH.format("fp64"), 1, SM_CLOCK),
    Limit("peak.f32", _SASS.format("ffma"), 2, SM_CLOCK),
    # Dense: the peak without this ending is that of sparse matrices, twice as high.
    Limit("peak.tf32", _PATH.format("tf32_dst_fp32_sparsity_off"), 1, SM_CLOCK),
    Limit("peak.f16", _PATH.format("fp16_dst_fp32_sparsity_off"), 1, SM_CLOCK),
    Limit("peak.bf16", _PATH.format("bf16_dst_fp32_sparsity_off"), 1, SM_CLOCK),
    Limit("peak.f8_e4m3", _PATH.format("fp8_dst_fp32_sparsity_off"), 1, SM_CLOCK),
    Limit("hbm.sustained", "dram__bytes", 1, DRAM_CLOCK),
    Limit("l2.sustained", "lts__t_bytes", 1, L2_CLOCK),
)
_V100 = Limit("peak.f16", TENSOR_PIPE, V100_FLOPS_AN_INSTRUCTION, SM_CLOCK)


class Sustained(NamedTuple):
    """A ceiling as Nsight Compute reports it."""

    name: str
    value: float  # FLOP/s or byte/s
    how: str
    clock_hz: float


def asked(known: Iterable[str]) -> tuple[str, ...]:
    """Metrics to ask for, of those that the profiler offers."""
    names = frozenset(known)
    limits = [limit for limit in (*LIMITS, _V100) if limit.counter in names]
    clocks = [clock for clock in (SM_CLOCK, DRAM_CLOCK, L2_CLOCK) if base(clock) in names]
    return (TIME, *dict.fromkeys([limit.counter + PEAK for limit in limits] + clocks))


def ceilings(values: LaunchMetrics, capability: str) -> Iterator[Sustained]:
    """Ceilings that one profiled launch states. One whose peak or clock is not there is left out."""
    limits = [*LIMITS, _V100] if capability == "7.0" else LIMITS
    best: dict[str, Sustained] = {}
    for limit in limits:
        peak, clock = values.take(limit.counter + PEAK), values.take(limit.clock, "Hz")
        if not peak or not clock:
            continue
        value = peak * limit.factor * clock
        how = f"{limit.counter}{PEAK} of {peak:g} x {limit.factor:g} x {clock / 1e9:.3f} GHz"
        if limit.name not in best or value > best[limit.name].value:
            best[limit.name] = Sustained(limit.name, value, how, clock)
    yield from best.values()


def ask(environ: Mapping[str, str], proc: str = "/proc", root: str = "/") -> list[Sustained]:
    """Ceilings of the first GPU, by profiling an empty kernel of our own. Raises session.Unusable, which says
    why."""
    ncu = command.find(environ)
    if ncu is None:
        raise session.Unusable(diagnosis.MISSING)
    metrics = asked(offered(session.query(ncu, environ)))
    with tempfile.TemporaryDirectory(prefix="roofline-ncu-") as folder:
        log = Path(folder) / "trial"
        works, text = session.attempt(ncu, metrics, log, environ)
        found = list(read(log)) if works else []
    if not found:
        raise session.Unusable(diagnosis.reason(text, proc, root) or diagnosis.NO_GPU)
    return found


def read(log: Path) -> Iterator[Sustained]:
    """Ceilings that the first launch in ncu's table states."""
    with contextlib.closing(Collector()) as found:
        aside = OtherLines(found, lambda line, number: None)
        with contextlib.suppress(OSError, RecordedError), log.open("rb") as stream:
            for some in launches(Text(log.name, stream), found, lambda name: True, aside):
                printed = some.launch(0) if isinstance(some, LaunchBlock) else some
                yield from ceilings(LaunchMetrics(printed.by_name), printed.cc)
                return
