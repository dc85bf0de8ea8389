"""Evidence about a rank with everything but the point left out, and what a summary says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.answers.values import Scope, Value
from roofline_server.model.evidence import (
    KernelEvidence,
    RankEvidence,
    StepEvidence,
)
from roofline_server.model.roofline.roofs import Limits, limits
from roofline_server.model.roofline.summary import summarize
from roofline_server.records import ABSENT, Ints

from ..builders import DRAM, PEAK_F32, S

NODE1, NODE2 = (limits(host, "", [PEAK_F32, DRAM], "f32") for host in ("node1", "node2"))


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def steps(*found: tuple[int, float, float], examples: int | list[int] = 32) -> StepEvidence:
    """found: (step, begin, end), seconds."""
    each = [examples] * len(found) if isinstance(examples, int) else examples
    return StepEvidence(
        ints(*(s for s, _, _ in found)),
        ints(*(int(b * S) for _, b, _ in found)),
        ints(*(int(e * S) for _, _, e in found)),
        ints(*each),
    )


TEN = steps(*((k, k, k + 0.9) for k in range(10)))
NONE = steps()


def kernels(
    flops: list[int], traffic: list[int] | None = None, seconds: float = 1, complete: bool = True, **more: Any
) -> KernelEvidence:
    n = len(flops)
    made = KernelEvidence(
        flops=ints(*flops),
        bytes=ints(*(traffic or [100] * n)),
        duration_ns=ints(*[int(seconds * S)] * n),
        kernel_ns=ints(*[S // 2] * n),
        complete=np.full(n, complete),
        unmodelled=ints(*[0] * n),
        dram=ints(*[ABSENT] * n),
        by_precision={"f32": ints(*flops)},
    )
    return made._replace(**more)


def evidence(**known: Any) -> RankEvidence:
    nothing: dict[str, Any] = dict.fromkeys(RankEvidence._fields)
    plain = {
        "key": "worker:0",
        "role": "worker",
        "host": "node1",
        "steps": TEN,
        "serving": False,
        "reasons": {},
        "columns": {},
        "barrier": "",
        "between": {},
    }
    return RankEvidence(**{**nothing, **plain, **known})


def of(
    *ranks: RankEvidence, limits: Sequence[Limits] = (NODE1,), scope: Scope = Scope.PROCESS
) -> dict[str, Value]:
    return summarize(ranks, limits, scope).values


def number(value: Value) -> float:
    assert value.value is not None, value.reason
    return value.value
