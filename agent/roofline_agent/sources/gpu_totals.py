"""What the GPUs of each rank did so far: rates of GPUs, added up over time for the ranks that use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..records import Rank


class Total(NamedTuple):
    """A counter made of a rate. Of several GPUs: the sum of bytes, the mean of times."""

    rates: tuple[str, ...]  # gauges of a GPU, the first that was read counts: a share, or a number a second
    is_sum: bool
    scale: float  # of what a share or a rate comes to in a second


# The time by NVML was within 3 % of that by CUDA events on an H100, busy for 10, 50 and 90 % of the time.
TOTALS: Mapping[str, Total] = {
    "gpu_busy_ns": Total(("gpm.graphics_active", "utilization"), False, 1e9),
    "gpu_tensor_ns": Total(("gpm.tensor_active",), False, 1e9),
    "gpu_dram_bytes": Total(("dram_bytes_per_second",), True, 1.0),
    "gpu_copied_bytes": Total(("gpm.pcie_rx_bytes_per_second",), True, 1.0),
}
GPUS = "gpus"
# Eight GPUs that move 3 TB/s each pass what a column holds, 2^63, within five days.
LARGEST = 2.0**60


class GpuTotals:
    """Counters of ranks, from one sample of all GPUs to the next."""

    def __init__(self) -> None:
        self._total: dict[tuple[Rank, str], float] = {}
        self._read_ns: int | None = None

    def add(
        self,
        now_ns: int,
        gauges: Mapping[str, Mapping[str, int | float]],
        users: Mapping[str, frozenset[Rank]],
    ) -> dict[Rank, dict[str, int]]:
        """Of each rank that uses GPUs how many (`GPUS`), and TOTALS so far.

        gauges: by GPU. A total is absent where another rank uses one of the GPUs too, and where its rate was
        not read; it starts again after that, since what lies between is not known. It also starts again
        beyond LARGEST, or where its rate was no number.
        """
        seconds = 0.0 if self._read_ns is None else (now_ns - self._read_ns) / 1e9
        self._read_ns = now_ns
        used: dict[Rank, list[str]] = {}
        for gpu in gauges:
            for rank in users.get(gpu, frozenset()):
                used.setdefault(rank, []).append(gpu)
        before, self._total = self._total, {}
        found: dict[Rank, dict[str, int]] = {}
        for rank, gpus in used.items():
            found[rank] = {GPUS: len(gpus)}
            alone = all(len(users[gpu]) == 1 for gpu in gpus)
            for name, total in TOTALS.items() if alone else ():
                rates = [rate for gpu in gpus if (rate := _rate(gauges[gpu], total)) is not None]
                if len(rates) == len(gpus):
                    mean_or_sum = sum(rates) / (1 if total.is_sum else len(gpus))
                    grown = before.get((rank, name), 0.0) + mean_or_sum * total.scale * seconds
                    if not 0.0 <= grown < LARGEST:
                        grown = 0.0
                    self._total[rank, name] = grown
                    found[rank][name] = round(grown)
        return found


def _rate(gauges: Mapping[str, int | float], total: Total) -> int | float | None:
    return next((gauges[name] for name in total.rates if name in gauges), None)
