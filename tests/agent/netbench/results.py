"""Results as a measuring process would report them."""

from __future__ import annotations

from roofline_agent.netbench.ceilings import MeasuredResult
from roofline_agent.netbench.messages import NetResult
from roofline_agent.netbench.rates import spread


def measured(name: str, *repeats: float, time_ns: int = 5) -> MeasuredResult:
    unit = "s" if "latency" in name else "byte/s"
    transport, pattern = name.split(".")[:2]
    over = spread(repeats)
    result = NetResult(
        name, transport, pattern, "", "", 0, 1, False, over.p50, unit, over, f"how {name}", time_ns
    )
    return MeasuredResult(result, repeats, sum(repeats) / len(repeats) if unit == "byte/s" else None)
