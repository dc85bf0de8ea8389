"""A job with kernels of several kinds, for what is made of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from roofline.answers.machines import Ceiling
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import NodeKey
from roofline_server.store.store import Store

from ..builders import BEGIN, DRAM, END, MS, PEAK_F32, Node, S, batch, calls, machine, marks, open_store, rank

LAUNCH = Ceiling("launch", "overhead", "", "", 0, 2e-5, "s", 0.01, "an empty kernel", 0)
HBM = Ceiling("hbm.triad", "memory", "hbm", "", 0, 1e12, "byte/s", 0.01, "", 0, device="gpu 0")
GPU_F32 = Ceiling("peak.f32", "compute", "", "f32", 0, 2e13, "FLOP/s", 0.01, "", 0, device="gpu 0")
CPU = (PEAK_F32, DRAM, LAUNCH)
STEP = 100 * MS
FIRST = 100 * S


class Call(NamedTuple):
    """A kernel that every step of every rank calls: how often, and how long each takes, ns."""

    kernel: pb.Kernel
    times: int
    duration_ns: int


def kernel(operation: str, flops: int | None, traffic: int | None, **more: object) -> pb.Kernel:
    said = {"library": "onednn", "precision": "f32", "problem": "8x8", **more}
    return pb.Kernel(operation=operation, flops=flops, bytes=traffic, **said)


class Host(Node):
    """A node with ceilings of its own."""

    def __init__(self, agent: str, ceilings: Sequence[Ceiling] = CPU, host: str = "") -> None:
        super().__init__(agent, host=host)
        self.ceilings = tuple(ceilings)

    def number(self, store: Store) -> int:
        return store.hello(NodeKey(self.agent, "boot"), machine(self.host, self.ceilings))


def run(
    store: Store,
    host: Host,
    found: Sequence[Call],
    job: str = "job",
    ranks: int = 1,
    steps: int = 10,
    facts: Sequence[str] = (),
    marked: bool = True,
    first: int = 0,
    recorded: Sequence[int] | None = None,
    index: int = 0,
    world: int = 0,
    spans: pb.Spans | None = None,
    examples: int = 8,
) -> None:
    """A job of workers on one host, whose steps of 100 ms call these kernels one after the other.

    recorded: whose kernels are recorded, None: all. index: of the first worker."""
    called, said = [], []
    for r in range(ranks):
        for k in range(steps):
            now = FIRST + k * STEP
            said += [(r, BEGIN, k, examples, now), (r, END, k, examples, now + STEP)]
            for number, one in enumerate(found if recorded is None or r in recorded else ()):
                for _ in range(one.times):
                    called.append((r, number, now, one.duration_ns))
                    now += one.duration_ns
    end = FIRST + steps * STEP + 1
    events = [
        pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=r, begin_ns=FIRST, end_ns=end)
        for r in (range(ranks) if recorded is None else recorded)
    ]
    events += [pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=f) for f in facts]
    host.greet(store)
    host.put(
        store,
        batch(
            first + 1,
            FIRST,
            end,
            ranks=[rank(job, index=index + r, pid=100 + r, world=world) for r in range(ranks)],
            kernels=[one.kernel for one in found],
            calls=calls(called),
            marks=marks(said if marked else []),
            events=events,
            **({"spans": spans} if spans else {}),
        ),
    )


def store_of(root: Path, *found: Call, ceilings: Sequence[Ceiling] = CPU, **more: object) -> Store:
    store = open_store(root)
    run(store, Host("a", ceilings), found, **more)  # type: ignore[arg-type]
    return store
