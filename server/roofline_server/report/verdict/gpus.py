"""How busy the GPUs of each role were, and their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...model.evidence import GpuEvidence, RankEvidence
from ...model.roofline.roofs import main_memory
from ...store.view import JobView
from ..ceilings.limits import of_rank


class GpuUse(NamedTuple):
    """Means over the ranks of a role: shares of the time of steps, and of_bandwidth of what the memory of the
    GPU was measured to do. None: not known."""

    role: str
    busy: float
    of_bandwidth: float | None
    tensor: float | None
    gpus: int = 1  # of a rank, the most


def gpu_use(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[GpuUse]:
    """Use of GPUs by each role of which the use of some is known."""
    roles: dict[str, dict[int, GpuEvidence]] = {}
    for number, rank in ranks.items():
        if rank.gpus is not None:
            roles.setdefault(rank.role, {})[number] = rank.gpus
    return [
        GpuUse(
            role,
            _mean(known, lambda number, one: one.busy) or 0.0,
            _mean(known, lambda number, one: _of_bandwidth(view, number, one)),
            _mean(known, lambda number, one: one.tensor),
            max(one.gpus for one in known.values()),
        )
        for role, known in roles.items()
    ]


def _of_bandwidth(view: JobView, number: int, one: GpuEvidence) -> float | None:
    ceiling = of_rank(view, number, "", gpu=True).bandwidth(main_memory("gpu"))
    return None if ceiling is None or one.bytes_per_second is None else one.bytes_per_second / ceiling.value


def _mean(
    known: Mapping[int, GpuEvidence], value: Callable[[int, GpuEvidence], float | None]
) -> float | None:
    found = [share for number, one in known.items() if (share := value(number, one)) is not None]
    return sum(found) / len(found) if found else None
