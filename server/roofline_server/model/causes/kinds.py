"""What kind of thing makes ranks late, by what they have more of than the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...records import Floats
from ..account.replay import median_of_others
from ..account.signals import RankSignals
from ..account.synchronous_job import BESIDE
from ..columns import known_mean, or_zero

MORE_WORK = 0.05  # more examples, FLOPs or bytes than the others'
THROTTLED = 0.25  # of the time that a rank lacks CPUs longer than the others
LEAST_FOREIGN = 0.1  # CPUs of a node: what keeps less busy is no crowd
MOST_OF = 0.5  # of a difference that one kind must make up to give it its name
MUCH_OF = 0.25  # the same of kernels, where these take longer as all that the rank does
STRETCHED = 1.1  # times as long: all phases, where not what a rank does differs, but the CPU it does it on
# Of contention, what a rank waits longer because it needs more CPU time, or has more to do for its input.
NEEDED = "contention_needed"
FOR_INPUT = "contention_for_input"
OF_CONTENTION = ("contention", NEEDED, FOR_INPUT)
CPU_TIME = (
    "compute",
    "host",
    "gc",
    "compute|host",
    "input|host",
    "input|compute|host",
    "compute|contention",
)
MERGED = ("compute|host", "input|compute|host")  # kernels were not recorded
# Parts of which one is mistaken for another are tested together.
GROUPS: dict[str, tuple[str, ...]] = {
    "cpu": (*CPU_TIME, NEEDED),
    "cpus_lacking": ("contention", "throttled"),
    "input": ("input", FOR_INPUT),
    "off": (
        "stopped",
        "paging",
        "disk",
        "blocked",
        "input|blocked",
        "host|blocked",
        "input|host|blocked",
        "compute|host|blocked",
        "input|compute|host|blocked",
        "other",
    ),
    # These are counted, and alone they vary less than together with what they are mistaken for.
    "throttled": ("throttled",),
    "stopped": ("stopped",),
}
COUNTED = ("throttled", "stopped")  # groups of one part
# Workers of a synchronous round wait for the same servers: what one waits longer is its own.
GROUPS_OF_ROUNDS = {**GROUPS, "off": (*GROUPS["off"], "input|wait_ps"), BESIDE: (BESIDE,)}


def kind_of(
    group: str,
    more: Mapping[str, float],
    work: float | None,
    own: Sequence[RankSignals],
    signals: Sequence[RankSignals],
    foreign: Mapping[str, float],
) -> str:
    whole = sum(more.values())
    if group == "cpu":
        return _kind_of_cpu_time(more, whole, work, own, signals)
    if group in COUNTED:
        return group
    if group == BESIDE:
        return "busy_alone"
    if group == "cpus_lacking":
        # Who has used up its limit also finds the CPUs taken when it may run again.
        if more.get("throttled", 0.0) >= THROTTLED * whole > 0:
            return "throttled"
        return who_has_the_cpus(own, whole, foreign)
    if group == "off":
        most = max(more, key=lambda part: more[part])
        if most in ("stopped", "paging", "disk") and more[most] >= MOST_OF * whole:
            return most
        if more.get("other", 0.0) >= MOST_OF * whole:
            return "unexplained"  # nothing measured its threads: it may compute as well as sleep
        return "input|blocked" if "input" in most.split("|") else "blocked"
    return "disk" if _reads_more(own, signals) else "input"


def _kind_of_cpu_time(
    more: Mapping[str, float],
    whole: float,
    work: float | None,
    own: Sequence[RankSignals],
    signals: Sequence[RankSignals],
) -> str:
    if work is not None and work > 1 + MORE_WORK and _grown(own, signals) > 1:
        # As much more time as work, or at least a good part of it: what does not grow with it is in both.
        explained = (work - 1) * _usual_cpu_time(own, signals)
        if explained >= MOST_OF * whole:
            return "more_work"
    if more.get("gc", 0.0) >= MOST_OF * whole:
        return "gc"
    if sum(more.get(part, 0.0) for part in MERGED) >= MOST_OF * whole:
        return "cpu_time"
    computing = more.get("compute", 0.0) + more.get("compute|contention", 0.0)
    is_slower = computing >= MOST_OF * whole or (
        computing >= MUCH_OF * whole and _all_is_stretched(own, signals)
    )
    return "slower" if is_slower or stretched_phases(own, signals) is not None else "host"


def work_of(signals: Sequence[RankSignals], own: Sequence[int]) -> float | None:
    """Work of a step of these ranks over that of the others: FLOPs, else bytes, else examples; what differs
    most."""
    ratios = []
    for means in _work_means(signals):
        usual = float(np.median(np.delete(means, own))) if len(own) < len(means) else 0.0
        if usual > 0:
            ratios.append(float(means[list(own)].mean() / usual))
    return max(ratios, key=lambda ratio: abs(ratio - 1)) if ratios else None


def work_of_each(signals: Sequence[RankSignals]) -> Floats:
    """Work of a step of each rank over that of the others; 1 where it is not known."""
    found: Floats = np.ones(len(signals))
    for means in _work_means(signals):
        usual = median_of_others(means)
        ratio = np.divide(means, usual, out=np.ones_like(means), where=usual > 0)
        found = np.where(np.abs(ratio - 1) > np.abs(found - 1), ratio, found)
    return found


def _work_means(signals: Sequence[RankSignals]) -> Iterator[Floats]:
    """Of each kind of work that is known of all ranks its mean a step; (ranks,)."""
    for means in zip(*(one.work for one in signals), strict=True):
        known = [mean for mean in means if mean is not None]
        if len(known) == len(signals):
            yield np.array(known)


def _cpu_time(one: RankSignals) -> float:
    """Seconds a step on a CPU for its own work, of the training thread or of all; of a GPU its kernels."""
    column = one.kernels if one.on_gpu else one.run if one.run is not None else one.threads_run
    if column is one.run and column is not None and one.held_run is not None:
        column = column - or_zero(one.held_run)  # it may spin while it waits for others
    column = one.kernels if column is None else column
    return float(np.nanmean(column)) if column is not None and (~np.isnan(column)).any() else 0.0


def _usual_cpu_time(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> float:
    mine = {one.rank for one in own}
    return float(np.median([_cpu_time(one) for one in signals if one.rank not in mine] or [0.0]))


def _grown(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> float:
    """CPU time of these ranks over that of the others."""
    usual = _usual_cpu_time(own, signals)
    return float(np.mean([_cpu_time(one) for one in own])) / usual if usual > 0 else 0.0


def who_has_the_cpus(own: Sequence[RankSignals], lacking: float, foreign: Mapping[str, float]) -> str:
    """Whether processes that are not the job's have the CPUs that these ranks lack, as far as is known.
    lacking: seconds a step, of each of them."""
    on = Counter(one.host for one in own if one.host in foreign)
    lasting = float(np.mean([one.duration.mean() for one in own]))
    if not on or lasting <= 0:
        return "contention_unknown"
    # A CPU that others have is lacking once, however many ranks of the node wait for it.
    least = MOST_OF * lacking / lasting
    others = any(foreign[host] >= max(LEAST_FOREIGN, least * ranks) for host, ranks in on.items())
    return "contention" if others else "contention_own"


def _all_is_stretched(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> bool:
    """Whether the kernels of these ranks take longer about as much as the rest of what they do: not what they
    do differs, but the CPU they do it on."""
    if any(one.on_gpu or one.kernels is None for one in signals):
        return False
    return _kernels_stretched(own, signals) - 1 >= MOST_OF * (_grown(own, signals) - 1) > 0


def _kernels_stretched(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> float:
    """How many times as long their kernels take as those of the others; 1 where it is not known."""
    mine = {one.rank for one in own}
    means = {one.rank: known_mean(one.kernels) for one in signals}
    known = {rank: mean for rank, mean in means.items() if mean is not None}
    usual = float(np.median([mean for rank, mean in known.items() if rank not in mine] or [0.0]))
    if len(known) < len(signals) or not usual > 0:
        return 1.0
    return float(np.mean([known[rank] for rank in mine])) / usual


def stretched_phases(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> Floats | None:
    """How many times as long their forward, backward and optimizer take as those of the others, (3,), where
    all of them, and the kernels, take clearly longer: more work does not make the optimizer slower, nor other
    Python code kernels. None: they do not, or it is not known."""
    if any(one.on_gpu or one.phases is None for one in signals):
        return None
    phases = {one.rank: one.phases for one in signals if one.phases is not None}
    mine = {one.rank for one in own}
    others = [means for rank, means in phases.items() if rank not in mine]
    own_means = np.mean([phases[rank] for rank in mine], axis=0)
    usual = np.median(others, axis=0) if others else np.zeros(len(own_means))
    if not (usual > 0).all():
        return None
    whole = float(own_means.sum() / usual.sum())
    stretched: Floats = own_means / usual
    evenly = float(stretched.min()) - 1 >= MOST_OF * (whole - 1)
    kernels_too = _kernels_stretched(own, signals) - 1 >= MUCH_OF * (whole - 1)
    return stretched if whole >= STRETCHED and evenly and kernels_too else None


def _reads_more(own: Sequence[RankSignals], signals: Sequence[RankSignals]) -> bool:
    """Whether its main thread reads from a disk in most steps, and more than the others."""
    known = {one.rank: one.blocks[~np.isnan(one.blocks)] for one in signals if one.blocks is not None}
    if len(known) < len(signals) or not all(map(len, known.values())):
        return False
    mine = {one.rank for one in own}
    means = {rank: float(blocks.mean()) for rank, blocks in known.items()}
    often = [float((known[rank] > 0).mean()) for rank in mine]
    others = [reads for rank, reads in means.items() if rank not in mine]
    return min(often) >= MOST_OF and min(means[r] for r in mine) > 2 * float(np.median(others or [0.0]))
