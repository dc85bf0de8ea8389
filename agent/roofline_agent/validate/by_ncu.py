"""Kernels of known FLOPs and bytes as Nsight Compute counts them, through the reader of `run --ncu`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..ncu import command, session
from ..recorded.recording import Launch
from .child import gpu
from .judging import Observation, judge
from .validation import Check, Unchecked
from .works import NCU, Expectation, KnownWork

TIMEOUT_S = 120.0
_PACKAGES = Path(__file__).resolve().parents[2]
FLOPS = Expectation(NCU, "flops", "flops", 0.01)
BYTES = Expectation(NCU, "dram_bytes", "bytes", 0.10)
WORKS = {
    FLOPS: KnownWork("fma", "a GPU does fused multiply-adds in single precision", (FLOPS,)),
    BYTES: KnownWork("fill", "a GPU fills 1 GiB of its memory", (BYTES,)),
}
_KERNELS = {FLOPS: gpu.FMA, BYTES: gpu.FILL}
_UNITS = {FLOPS: "FLOP", BYTES: "byte"}
KNOWN = {FLOPS: float(gpu.ONCE_FLOPS), BYTES: float(gpu.FILLED)}


def check(
    environ: Mapping[str, str], repeats: int, progress: Callable[[str], None], now_ns: Callable[[], int]
) -> list[Check | Unchecked]:
    """Each run takes some seconds."""
    try:
        ncu, metrics = session.check(environ)
    except session.Unusable as error:
        return [Unchecked(NCU, "", str(error), time_ns=now_ns())]
    runs = []
    for number in range(repeats):
        progress(f"kernels under ncu: {number + 1} of {repeats}")
        runs.append(_launches(ncu, metrics, environ))
    found = []
    for one, work in WORKS.items():
        seen = [observation for launches in runs if (observation := observed(one, launches)) is not None]
        found.append(judge(one, work, _UNITS[one], seen, now_ns(), "ncu counted no such kernel"))
    return found


def _launches(ncu: str, metrics: Sequence[str], environ: Mapping[str, str]) -> list[Launch]:
    """Of one run of our program; none where it fails."""
    with tempfile.TemporaryDirectory(prefix="roofline-ncu-") as folder:
        log = Path(folder) / "log"
        program = [sys.executable, "-c", "from roofline_agent.validate.child.gpu import once; once()"]
        try:
            subprocess.run(
                [*command.profiling(ncu, metrics, log), *program],
                env=dict(environ),
                cwd=_PACKAGES,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return session.read_launches(log)


def observed(one: Expectation, launches: Sequence[Launch]) -> Observation | None:
    """What was counted of our kernel; None where it is not among the launches."""
    mine = [launch for launch in launches if _KERNELS[one] in launch.name]
    counts = [launch.flops if one is FLOPS else launch.bytes.get("dram") for launch in mine]
    known = [count for count in counts if count is not None]
    if len(known) != 1:
        return None
    return Observation(float(known[0]), KNOWN[one], KNOWN[one])
