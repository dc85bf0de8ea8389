"""What questions cost of long and of wide jobs with phases, kernels and the training thread's time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import numpy as np
import psutil
from numpy.typing import NDArray
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2
from roofline_client import connect

from . import in_duckdb
from .agent import load
from .server import PROCESS, SECOND, STEP_NS, TCP, WINDOW, Stream, median_seconds
from .site import COMMANDS, Node, Result, node, ranks

RANKS_PER_NODE = 8
STEPS_PER_BATCH = 100  # the same rows as in ten batches of a second, sent sooner
BATCH_NS = STEPS_PER_BATCH * STEP_NS
PHASES = ("input", "forward", "backward", "communicate")
BEGINS = np.array([0, 10, 30, 70]) * 1_000_000  # of the phases, and of the end of the last, ns in a step
ENDS = np.array([10, 30, 70, 95]) * 1_000_000
AMOUNTS = ("thread.run.step", "thread.delay.step", "thread.run.input", "thread.delay.input")
CALLS = 4  # of kernels in a step
PINGS_S = 6.0  # in which clocks get known so well that the steps of all ranks are seen to be at one time
SLOW_RANK, SLOWER_NS = 3, 8_000_000
Ints = NDArray[np.int64]


class Shape(NamedTuple):
    """Of a job: its id is the number of its ranks."""

    ranks: int
    steps: int

    @property
    def job(self) -> str:
        return str(self.ranks)


LONG, WIDE = Shape(64, 10_000), Shape(1_000, 1_000)


# -- the questions -------------------------------------------------------------------------------------------


def report_of_long_job() -> Iterator[Result]:
    """Report and timeline of 64 ranks x 10,000 steps."""
    with served_job(LONG) as (here, server):
        yield _report(here, server, LONG, 0.3, 1.0)
        yield _timeline(here, LONG)


def report_of_wide_job() -> Result:
    """Report of 1,000 ranks x 1,000 steps."""
    with served_job(WIDE) as (here, server):
        return _report(here, server, WIDE, 1.0, 2.0)


@contextlib.contextmanager
def served_job(shape: Shape) -> Iterator[tuple[Node, psutil.Process]]:
    with node() as here, here.server() as server:
        asyncio.run(send(here.address, shape))
        time.sleep(40)  # a sealing stores the step deltas, as it does in any job of this length
        yield here, server


def _report(here: Node, server: psutil.Process, shape: Shape, most_served: float, most: float) -> Result:
    with connect(here.address) as client:
        first, *screens = [_seconds(lambda: client.report(shape.job, first_screen=True)) for _ in range(6)]
        tables = sorted(_seconds(lambda: client.report(shape.job)) for _ in range(3))[1]
        assert len(client.report(shape.job).ranks) == shape.ranks
    served = sorted(screens)[2]
    whole = median_seconds([str(COMMANDS / "roofline-client"), "report", "--job", shape.job], here)
    resident = server.memory_info().rss / 2**20
    sums = in_duckdb.seconds(here.folder / "data" / "segments" / f"job-{shape.job}")
    return Result(
        f"report with phases and kernels, {shape.ranks:,} ranks x {shape.steps:,} steps",
        f"{most_served:g} s served, {most:g} s in all",
        f"{served:.2f} s served, {whole:.2f} s in all",
        served <= most_served and whole <= most,
        f"with all tables {tables:.2f} s served; the first time {first:.2f} s; "
        f"DuckDB's plain sums over the same files {sums:.2f} s; "
        f"the server holds {resident:.0f} MB; {load()}",
    )


def _seconds(ask: Callable[[], object]) -> float:
    begin = time.monotonic()
    ask()
    return time.monotonic() - begin


def _timeline(here: Node, shape: Shape) -> Result:
    path = here.folder / "timeline.json"
    begin = time.monotonic()
    command = [COMMANDS / "roofline-client", "timeline", "--job", shape.job, "-o", path]
    subprocess.run(command, env=here.environ, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - begin
    what = f"timeline, {shape.ranks} ranks x {shape.steps:,} steps"
    beside = f"{path.stat().st_size / 2**20:.0f} MB; {load()}"
    return Result(what, "8 s", f"{seconds:.1f} s", seconds <= 8, beside)


# -- the job -------------------------------------------------------------------------------------------------


async def send(address: str, shape: Shape) -> None:
    """The whole job as its agents would have sent it, then something from long after: nothing is to come."""
    nodes = -(-shape.ranks // RANKS_PER_NODE)
    options = (("grpc.use_local_subchannel_pool", 1),)
    last = shape.steps // STEPS_PER_BATCH
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        streams = [Stream(channel, f"node-{n}", _machine(n)) for n in range(nodes)]
        await asyncio.sleep(PINGS_S)
        # It has just ended: clocks that are measured now hold for so long ago, and not for hours.
        origin = time.monotonic_ns() - last * BATCH_NS
        for sequence in range(1, last + 1):
            for number, stream in enumerate(streams):
                await stream.wait_for(sequence - WINDOW)
                await asyncio.sleep(0)  # pings are answered at once, next to batches that are being made
                first = number * RANKS_PER_NODE
                count = min(RANKS_PER_NODE, shape.ranks - first)
                stream.send(sequence, _batch(shape, origin, sequence, first, count).SerializeToString())
        for stream in streams:
            await stream.wait_for(last)
            begin = origin + last * BATCH_NS + 20 * SECOND
            idle = pb.Batch(sequence=last + 1, begin_ns=begin, end_ns=begin + SECOND)
            stream.send(last + 1, pb.AgentMessage(batch=idle).SerializeToString())
            await stream.wait_for(last + 1)
            await stream.close()


def _machine(number: int) -> machine_pb2.Machine:
    machine = machine_pb2.Machine(host=f"node-{number}", cpus=16, cores=16, sockets=1)
    for name, kind, level, value, unit in (
        ("peak.f32.512", "compute", "", 1e12, "FLOP/s"),
        ("dram.triad", "memory", "dram", 1e11, "byte/s"),
        ("net.bandwidth", "network", "network", 1e9, "byte/s"),
    ):
        ceiling = machine.ceilings.add(name=name, kind=kind, level=level, value=value, unit=unit)
        if kind == "compute":
            ceiling.precision, ceiling.width = "f32", 512
        if kind == "network":
            ceiling.peer = f"node-{number ^ 1}"
    return machine


def _batch(shape: Shape, origin: int, sequence: int, first: int, count: int) -> pb.AgentMessage:
    """Steps of `count` ranks of one node, their spans and kernel calls, and a sample a second."""
    step = np.arange((sequence - 1) * STEPS_PER_BATCH, sequence * STEPS_PER_BATCH)
    rank, step = (a.ravel() for a in np.meshgrid(np.arange(count), step, indexing="ij"))
    begin = origin + step * STEP_NS
    late = _late(first, sequence, count)
    batch = pb.Batch(
        sequence=sequence,
        begin_ns=origin + (sequence - 1) * BATCH_NS,
        end_ns=origin + sequence * BATCH_NS,
        ranks=ranks(shape.job, first, count),
        marks=_marks(rank, step, begin),
        spans=_spans(rank, begin, late),
        calls=_calls(rank, begin, late),
        kernels=[_kernel(kind) for kind in range(CALLS)],
        counter_sets=[PROCESS, TCP],
    )
    for number in range(count):
        covered = {"begin_ns": batch.begin_ns, "end_ns": batch.end_ns}
        batch.events.add(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=number, **covered)
    moments = np.repeat(np.arange(10) * SECOND + batch.begin_ns, count)
    whose = np.tile(np.arange(count), 10)
    for number, counters in enumerate(batch.counter_sets):
        columns = [_packed((moments - origin) // 2 * (m + 1)) for m in range(len(counters.metrics))]
        batch.samples.add(counter_set=number, rank=_packed(whose), time_ns=_packed(moments), columns=columns)
    return pb.AgentMessage(batch=batch)


def _late(first: int, sequence: int, count: int) -> Ints:
    """How much longer than usual each step of each rank computed, ns."""
    random = np.random.default_rng(first * 100_000 + sequence)
    late = random.integers(0, 5_000_000, (count, STEPS_PER_BATCH))
    if first <= SLOW_RANK < first + count:
        late[SLOW_RANK - first] += SLOWER_NS
    return late.ravel()


def _marks(rank: Ints, step: Ints, begin: Ints) -> pb.Marks:
    def both(column: Any) -> bytes:
        return _packed(np.repeat(np.broadcast_to(column, rank.shape), 2))

    return pb.Marks(
        rank=both(rank),
        sender=both(rank),
        kind=_packed(np.tile([pb.MARK_KIND_BEGIN, pb.MARK_KIND_END], len(rank))),
        step=both(step),
        examples=both(32),
        time_ns=_packed(np.stack([begin, begin + STEP_NS - 1000], 1)),
        phase=both(-1),
        flags=both(0),
    )


def _spans(rank: Ints, begin: Ints, late: Ints) -> pb.Spans:
    names = len(PHASES) + len(AMOUNTS)
    begins = np.empty((len(rank), names), np.int64)
    ends, counts = begins.copy(), np.ones_like(begins)
    begins[:, :4], ends[:, :4] = begin[:, None] + BEGINS, begin[:, None] + ENDS
    begins[:, 3] += late
    ends[:, 2] += late
    begins[:, 4:] = ends[:, 4:] = begin[:, None] + STEP_NS // 2
    counts[:, 4:] = [60_000_000, 1_000_000, 8_000_000, 100_000]
    counts[:, 4] += late
    return pb.Spans(
        rank=_packed(np.repeat(rank, names)),
        name=_packed(np.tile(np.arange(names), len(rank))),
        begin_ns=_packed(begins),
        end_ns=_packed(ends),
        bytes=_packed(np.full(begins.size, -(2**63))),
        count=_packed(counts),
        names=[*(f"phase.{name}" for name in PHASES), *AMOUNTS],
    )


def _calls(rank: Ints, begin: Ints, late: Ints) -> pb.Calls:
    starts = begin[:, None] + 11_000_000 + np.arange(CALLS) * 13_000_000
    return pb.Calls(
        rank=_packed(np.repeat(rank, CALLS)),
        kernel=_packed(np.tile(np.arange(CALLS), len(rank))),
        start_ns=_packed(starts),
        duration_ns=_packed(np.repeat(9_000_000 + late // CALLS, CALLS)),
    )


def _kernel(kind: int) -> pb.Kernel:
    variant = "backward_data" if kind > 1 else "forward_training"
    return pb.Kernel(
        library="onednn",
        operation="convolution" if kind % 2 else "matmul",
        variant=variant,
        precision="f32",
        implementation="jit:avx512_core",
        problem=f"shape{kind}",
        flops=1_000_000_000 * (kind + 1),
        bytes=100_000_000,
    )


def _packed(values: Any) -> bytes:
    return np.ascontiguousarray(values, "<i8").tobytes()
