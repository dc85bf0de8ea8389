"""Validations that tests share."""

from __future__ import annotations

from roofline_agent.validate.validation import Check, Unchecked, Validation

RIGHT = Check(
    *("process", "cpu_ns", "a thread computes for 0.5 s", "ns"),
    *(5e8, 5e8, -0.001, 0.0, 0.004, 0.02, 10),
    time_ns=1_795_600_000_000_000_000,
)
WRONG = RIGHT._replace(
    source="perf", metric="flops.f32.512", unit="FLOP", least=-0.21, median=-0.2, most=-0.2
)
NO_RAPL = Unchecked("rapl", "", "a virtual machine sees no energy counters", "run on bare metal", 7)
FOUND = Validation(
    *("node1", "a CPU", "6.1.0", "0.9", 1_795_600_000_000_000_000, 10),
    (RIGHT, WRONG),
    (NO_RAPL,),
    ("no kernels of f16",),
)
