"""Results as a measuring process would say them."""

from __future__ import annotations

from roofline_agent.netbench.ceilings import Measured
from roofline_agent.netbench.rates import spread
from roofline_agent.netbench.records import Result


def measured(name: str, *repeats: float, time_ns: int = 5) -> Measured:
    unit = "s" if "latency" in name else "byte/s"
    transport, pattern = name.split(".")[:2]
    over = spread(repeats)
    result = Result(
        name, transport, pattern, "", "", 0, 1, False, over.p50, unit, over, f"how {name}", time_ns
    )
    return Measured(result, repeats, sum(repeats) / len(repeats) if unit == "byte/s" else None)
