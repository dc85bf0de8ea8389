"""Where ranks compute: on the CPUs of their host, or on which of its GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance

from ...model.evidence import RankEvidence
from ...model.roofline.roofs import counts
from ...model.roofline.shares import on_gpu
from ...sentences import rooflines as texts
from ...store.view import JobView, once
from ..ranks.members import host_of
from .nodes import ROOFING, ceilings, devices

ALIKE = 0.1  # GPUs whose measured ceilings differ by no more are one as good as the other
GPU_SETS = ("gpu", "dcgm")  # counter sets whose parts are GPUs
VISIBLE = "setting.CUDA_VISIBLE_DEVICES"
PART_OF_GPU = "MIG-"  # how the UUID of a part begins (Multi-Instance GPU)
PASSING = 0.1  # of the time on the GPU where a rank was longest: what is less is no place of work


class Place(NamedTuple):
    """Where a rank computes. device "": the CPUs, None: a GPU, but it is not known which."""

    host: str
    device: str | None
    note: str = ""  # how the GPU is known, or why it is not


def places(view: JobView, ranks: Mapping[int, RankEvidence]) -> dict[int, list[Place]]:
    """Where each of these ranks computes."""
    return {number: places_of(view, number, rank.host, on_gpu(rank)) for number, rank in ranks.items()}


def place_of(view: JobView, number: int, gpu: bool = False) -> Place:
    """Host and device of a rank: of GPUs the one whose counters carry the rank, or the only one that it was
    let see, else one of those that are alike, each rank another. Of several that carry it the first."""
    return places_of(view, number, host_of(view, number), gpu)[0]


def places_of(view: JobView, number: int, host: str, gpu: bool) -> list[Place]:
    """All of a rank whose counters several GPUs carry."""
    if not gpu:
        return [Place(host, "")]
    visible = view.facts.get(number, {}).get(VISIBLE, "")
    if any(word.strip().upper().startswith(PART_OF_GPU) for word in visible.split(",")):
        return [Place(host, None, texts.part_of_gpu(visible))]
    known = [device for device in devices(view, host) if device]
    # One without ceilings is not left out: what the rank did there is in no other GPU's roof.
    if used := _counting(view).get(number, ()):
        note = texts.several_gpus(len(used)) if len(used) > 1 else ""
        return [Place(host, device, note) for device in sorted(used, key=lambda gpu: (len(gpu), gpu))]
    return [_place_without_counters(view, number, host, known)]


@once
def _counting(view: JobView) -> dict[int, list[str]]:
    """rank -> the GPUs whose counters carry it, without those on which it hardly was: who loads a checkpoint
    onto another GPU than its own is there for seconds."""
    samples: dict[int, dict[str, float]] = {}  # of the gauge that has most
    seconds: dict[int, dict[str, float]] = {}  # with the time between when it was there and came again
    for part in view.parts:
        if part.metric.counter_set in GPU_SETS and part.instance.startswith("gpu "):
            for found, lasted in ((samples, part.samples), (seconds, part.seconds)):
                mine = found.setdefault(part.rank, {})
                mine[part.instance] = max(mine.get(part.instance, 0.0), lasted)
    return {rank: _notable(mine if all(mine.values()) else seconds[rank]) for rank, mine in samples.items()}


def _notable(lasted: Mapping[str, float]) -> list[str]:
    least = PASSING * max(lasted.values())
    return [gpu for gpu, much in lasted.items() if much >= least]


@once
def _places_at_home(view: JobView) -> dict[int, int]:
    """rank -> its number among the ranks of its host, from 0."""
    counts: Counter[str] = Counter()
    found = {}
    for number in sorted(view.ranks, key=lambda n: view.ranks[n]):
        host = host_of(view, number)
        found[number] = counts[host]
        counts[host] += 1
    return found


def _place_without_counters(view: JobView, number: int, host: str, known: Sequence[str]) -> Place:
    """Of a rank on a GPU whose counters do not show which. known: those with ceilings."""
    # The only GPU that the rank was let see; its number is the node's if the job counts as the node does.
    visible = view.facts.get(number, {}).get(VISIBLE, "")
    if visible.isdecimal():
        device = f"gpu {int(visible)}"
        if device in known or not known:
            return Place(host, device, texts.visible_gpu(device))
    if not known:
        return Place(host, None, texts.gpu_without_ceilings(host))
    if len(known) == 1:
        return Place(host, known[0])
    if not _alike(view, host, tuple(known)):
        return Place(host, None, texts.different_gpus(len(known), host))
    # Each of the ranks of the job on its host on another.
    place = _places_at_home(view)[number] % len(known)
    return Place(host, known[place], texts.alike_gpus(len(known), host))


@once
def _alike(view: JobView, host: str, known: tuple[str, ...]) -> bool:
    """Whether what several of these GPUs were measured for differs little, and each was for some of it. Where
    one was not measured at all their theoretical ceilings are compared."""
    # The comparison is by sets of devices: what one GPU alone was measured for says nothing.
    some = [c for c in ceilings(view, host) if c.device in known and c.kind in ROOFING]
    compared = [c for c in some if counts(c) and c.provenance != Provenance.REPORTED]
    if {c.device for c in compared} != set(known):
        compared = [c for c in some if c.provenance == Provenance.ANALYTIC]
    by_name: dict[str, dict[str, float]] = {}
    for c in compared:
        by_name.setdefault(c.name, {})[c.device] = c.value
    shared = [by_device for by_device in by_name.values() if len(by_device) > 1]
    if set().union(*shared) != set(known):
        return False
    return all(min(values.values()) >= (1 - ALIKE) * max(values.values()) for values in shared)
