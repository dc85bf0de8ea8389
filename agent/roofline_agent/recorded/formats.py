"""The formats that can be read, one line here each, recognised by their content and never by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import ert, likwid_bench, stream, verbose_log
from .benchmarks import hpl, nccl, nvbandwidth
from .collector import Collector
from .dcgm import reader as dcgm
from .errors import NotRecognised
from .likwid import reader as likwid
from .ncu import reader as ncu
from .neighbours import advice_for
from .nvprof import reader as nvprof
from .perf import reader as perf_stat
from .tables import lightning, nsys, nvidia_smi, rocprof
from .text import Text
from .traces import horovod, kineto, otlp, rocprofv3, xplane
from .training import mllog, trainer_state, trainers
from .training import reader as training_log


class Format(NamedTuple):
    """sniff(head) is how sure it is that this is its format: 0 no, 100 certainly. read goes through the
    text once, gives the collector what it finds and never raises for what the file holds."""

    name: str
    sniff: Callable[[str], int]
    read: Callable[[Text, Collector], None]


FORMATS: tuple[Format, ...] = (
    Format("ncu", ncu.sniff, ncu.read),
    Format("nvprof", nvprof.sniff, nvprof.read),
    Format("horovod timeline", horovod.sniff, horovod.read),
    Format("pytorch profiler", kineto.sniff, kineto.read),
    Format("dcgm-exporter", dcgm.sniff, dcgm.read),
    Format("training log", training_log.sniff, training_log.read),
    Format("perf stat", perf_stat.sniff, perf_stat.read),
    Format("onednn", verbose_log.sniff, verbose_log.read),
    Format("likwid", likwid.sniff, likwid.read),
    Format("likwid-bench", likwid_bench.sniff, likwid_bench.read),
    Format("stream", stream.sniff, stream.read),
    Format("ert", ert.sniff, ert.read),
    Format("nsys", nsys.sniff, nsys.read),
    Format("rocprof", rocprof.sniff, rocprof.read),
    Format("rocprofv3", rocprofv3.sniff, rocprofv3.read),
    Format("xplane", xplane.sniff, xplane.read),
    Format("otlp", otlp.sniff, otlp.read),
    Format("trainer log", trainers.sniff, trainers.read),
    Format("trainer state", trainer_state.sniff, trainer_state.read),
    Format("mllog", mllog.sniff, mllog.read),
    Format("lightning", lightning.sniff, lightning.read),
    Format("nvidia-smi", nvidia_smi.sniff, nvidia_smi.read),
    Format("nccl", nccl.sniff, nccl.read),
    Format("nvbandwidth", nvbandwidth.sniff, nvbandwidth.read),
    Format("hpl", hpl.sniff, hpl.read),
)


def recognise(text: Text) -> Format:
    """The format that is surest. Raises NotRecognised."""
    sure, best = max(((one.sniff(text.head), one) for one in FORMATS), key=lambda pair: pair[0])
    if not sure:
        if advice := advice_for(text.head):
            raise NotRecognised(f"{text.name}: {advice}")
        first = next((line.strip() for line in text.head.splitlines() if line.strip()), "")
        raise NotRecognised(
            f"{text.name}: no known format; it begins with {first[:60]!r}. "
            f"Known: {', '.join(one.name for one in FORMATS)}"
        )
    return best
