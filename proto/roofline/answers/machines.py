"""Machines with their ceilings, and measurements of the network between two of them."""

from __future__ import annotations

from typing import NamedTuple

from .values import Provenance, Spread


class Ceiling(NamedTuple):
    """One limit of a machine (docs/ceilings.md). None: not reported."""

    name: str  # "peak.f32.512", "dram.triad", "launch"
    kind: str  # compute, memory, network, latency (of a network), overhead (of a launch)
    level: str  # of memory: l1, l2, l3, dram, hbm; of a network "network"
    precision: str  # of compute: f64, f32, bf16, ...
    width: int  # vector width, bits; of scalar code that of one value
    value: float  # best of the repeats, in `unit`
    unit: str  # FLOP/s, byte/s or s
    spread: float  # (max - min) / max over the repeats
    method: str  # one sentence: threads, working set, repeats
    time_ns: int  # when it was measured, UNIX time
    device: str = ""  # "" the CPUs of the node, "gpu 0"
    threads: int | None = None  # CPUs that took part at once
    provenance: Provenance = Provenance.MEASURED  # analytic: a theoretical peak
    median: float | None = None  # of the repeats, in `unit`
    clock_hz: float | None = None  # of the cores (GPU: of its SMs) while it ran
    peer: str = ""  # of a network: the host at the other end
    operation: str = ""  # of memory: read, copy, triad; of compute: fma, mul_add, dot, gemm
    doubt: str = ""  # why the machine may do better


class SourceStatus(NamedTuple):
    """Whether a source of an agent works, or why not and what to do."""

    name: str
    works: bool
    reason: str
    advice: str
    fills: str = ""  # what of a report its values fill
    caveat: str = ""  # which of its values `roofline-agent validate` found off, and by how much


class Machine(NamedTuple):
    """Hardware of a node and its ceilings."""

    host: str
    cpu_model: str
    sockets: int
    cores: int
    cpus: int
    memory_bytes: int
    kernel: str
    ceilings: list[Ceiling]


class MachineVersion(NamedTuple):
    """What was true of a machine for a while."""

    machine: Machine
    version: int  # from 1 for each agent
    since_ns: int
    until_ns: int  # 0: it holds
    jobs: list[str]  # that are reported against it
    connected: bool  # its agent's stream is open
    agent: str  # identity of the agent; of an imported result that of the file


class NetResult(NamedTuple):
    """One measurement of the network between two agents."""

    name: str  # "tcp.latency", "grpc.bandwidth.uniform.large", ...
    transport: str  # tcp, grpc
    pattern: str  # latency, bandwidth, ps
    payload: str  # uniform, random, skewed; of tcp empty
    buffers: str  # small, medium, large, mixed
    buffer_count: int  # in one message
    message_bytes: int
    serialized: bool  # buffers were packed by protobuf
    value: float  # median, in `unit`
    unit: str  # s, byte/s, 1/s
    spread: Spread | None
    method: str
    time_ns: int


class NetSummary(NamedTuple):
    """What became the network ceilings of the sending node."""

    ceilings: list[Ceiling]
    notes: list[str]
