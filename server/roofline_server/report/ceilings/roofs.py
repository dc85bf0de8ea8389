"""The roofs of the machines a job ran on, and which of them holds for a rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.roofline import Roof
from roofline.answers.values import Provenance

from ...correlate.parts import PartTotal
from ...model.evidence import RankEvidence
from ...model.roofline import (
    CACHES,
    NETWORK,
    THEORY,
    Limits,
    counts,
    is_theory_alone,
    lines,
    main_memory,
    of_node,
    part_of,
)
from ...model.roofline import limits as limits_of
from ...model.summary import has_flops, on_gpu
from ...model.work import dominant_precision
from ...store.view import JobView
from ..ranks.members import host_of
from .network import network_note, of_network
from .nodes import ROOFING, ceilings, cpus_of, devices, hosts, machines_of

ALIKE = 0.1  # GPUs whose measured ceilings differ by no more are one as good as the other
GPU_SETS = ("gpu", "dcgm")  # counter sets whose parts are GPUs
CONSTRAINED = ", which counts from 0 where a job sees only its own GPUs (Slurm's ConstrainDevices)"
VISIBLE = "setting.CUDA_VISIBLE_DEVICES"


class Place(NamedTuple):
    """Where a rank computes. device "": the CPUs, None: a GPU, but nobody knows which."""

    host: str
    device: str | None
    note: str = ""  # how the GPU is known, or why it is not


def roofs(view: JobView, *precisions: str, kind: str = "classic") -> list[Roof]:
    """One roof per host and device, in order, with the compute ceilings of these precisions.

    kind: "classic": main memory binds, caches are drawn; "hierarchical": every level binds; "network": only
    the network does, and only it is drawn. Without precisions all are drawn and none binds. A host that
    nobody calibrated has a roof without lines.
    """
    asked = tuple(dict.fromkeys(p for p in precisions if p))
    return [_roof(view, host, device, asked, kind) for host in hosts(view) for device in devices(view, host)]


def limits(view: JobView, host: str, device: str, precision: str) -> Limits:
    """What binds on a device: peak compute in a precision, bandwidth by level, launch overhead."""
    every = ceilings(view, host)
    network = of_network(view, host, every)
    mine = [c for c in every if c.device == device and c.kind != "network"]
    found = limits_of(host, device, [*mine, *network], precision, cpus_of(view, host))
    return found._replace(network_note=network_note(view, host, network))


def of_rank(view: JobView, number: int, precision: str, gpu: bool = False) -> Limits:
    """The same for a rank. gpu: its kernels ran on a GPU; `lacks()` says it when nobody knows on which."""
    return _limits_at(view, place_of(view, number, gpu), precision)


def _limits_at(view: JobView, place: Place, precision: str) -> Limits:
    if place.device is None:
        return Limits(place.host, "gpu", precision, None, {}, nowhere=place.note)
    found = limits(view, place.host, place.device, precision)
    return found._replace(note="; ".join(filter(None, (place.note, found.note))))


def of_ranks(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[Limits]:
    """What binds where these ranks did the FLOPs that are known of them, in the precision of most of these;
    each place once."""
    return _limits_of(view, places(view, computing(ranks)).values(), ranks)


def of_roles(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[Limits]:
    """The same wherever these ranks compute: one of which no FLOPs are known as the others of its role do, on
    CPUs or on a GPU of its own. A role of which none are known is left out."""
    known = {number: on_gpu([r]) for number, r in computing(ranks).items() if r.kernels is not None}
    roles = {ranks[number].role: gpu for number, gpu in known.items()}
    gpus = {number: known.get(number, roles[r.role]) for number, r in ranks.items() if r.role in roles}
    found = (_places(view, number, ranks[number].host, gpu) for number, gpu in gpus.items())
    return _limits_of(view, found, ranks)


def _limits_of(
    view: JobView, found: Iterable[Sequence[Place]], ranks: Mapping[int, RankEvidence]
) -> list[Limits]:
    precision = dominant_precision(list(ranks.values()))
    named: dict[tuple[str, str | None], Place] = {}
    for place in (place for mine in found for place in mine if place.host):
        named.setdefault((place.host, place.device), place)
    return [_limits_at(view, place, precision) for place in named.values()]


def computing(ranks: Mapping[int, RankEvidence]) -> dict[int, RankEvidence]:
    """Those of these ranks whose FLOPs are known; all where none are."""
    known = has_flops(list(ranks.values()))
    return {n: rank for (n, rank), has in zip(ranks.items(), known, strict=True) if has or not any(known)}


def everywhere(view: JobView, number: int, precision: str, gpu: bool) -> list[Limits]:
    """As `of_rank`, of every GPU that a rank computes on: its steps and phases are theirs together."""
    return [_limits_at(view, place, precision) for place in _places(view, number, host_of(view, number), gpu)]


def places(view: JobView, ranks: Mapping[int, RankEvidence]) -> dict[int, list[Place]]:
    """Where each of these ranks computes."""
    return {number: _places(view, number, rank.host, on_gpu([rank])) for number, rank in ranks.items()}


def place_of(view: JobView, number: int, gpu: bool = False) -> Place:
    """Host and device of a rank: of GPUs the one whose counters carry the rank, or the only one that it was
    let see, else one of those that are alike, each rank another. Of several that carry it the first."""
    return _places(view, number, host_of(view, number), gpu)[0]


def _places(view: JobView, number: int, host: str, gpu: bool) -> list[Place]:
    """All of a rank whose counters several GPUs carry."""
    if not gpu:
        return [Place(host, "")]
    known = [device for device in devices(view, host) if device]
    told = [device for device in _carrying(view, number) if device in known or not known]
    if told:
        note = f"its counters are on {len(told)} GPUs, which are taken to share its work" * (len(told) > 1)
        return [Place(host, device, note) for device in told]
    return [_guessed(view, number, host, known)]


def _guessed(view: JobView, number: int, host: str, known: Sequence[str]) -> Place:
    """Of a rank on a GPU whose counters do not say on which. known: those with ceilings."""
    visible = _visible(view, number)
    if visible and (visible in known or not known):
        return Place(host, visible, f"{visible} by CUDA_VISIBLE_DEVICES{CONSTRAINED}")
    if not known:
        return Place(host, None, f"its kernels ran on a GPU, and no GPU of {host} has ceilings")
    if len(known) == 1:
        return Place(host, known[0])
    if not _alike(view, host, known):
        return Place(
            host, None, f"which of the {len(known)} GPUs of {host} it used is not known, and they differ"
        )
    note = f"which of the {len(known)} GPUs of {host} it used is not known: their ceilings are alike"
    return Place(host, known[_place_on_host(view, number) % len(known)], note)


def _place_on_host(view: JobView, number: int) -> int:
    """How many ranks of the job stand before this one on its host."""
    host = host_of(view, number)
    mine = [n for n in view.ranks if host_of(view, n) == host]
    return sorted(mine, key=lambda n: view.ranks[n]).index(number)


def _roof(view: JobView, host: str, device: str, precisions: Sequence[str], kind: str) -> Roof:
    known = ceilings(view, host)
    every = [c for c in known if c.device == device]
    drawn = [c for c in every if c.kind not in ("network", "memory" if kind == "network" else "")]
    if kind != "classic":
        drawn += of_network(view, host, known)
    binding = {"classic": (main_memory(device),), "network": (NETWORK,)}.get(
        kind, (*CACHES, main_memory(device), NETWORK)
    )
    calibrated = max((c.time_ns for c in every if counts(c) and c.kind in ROOFING), default=0)
    made = lines(drawn, precisions, binding)
    return Roof(host, _note(view, host, device), made, every, device, calibrated)


def _note(view: JobView, host: str, device: str) -> str:
    if device:
        theory = is_theory_alone(c for c in ceilings(view, host) if c.device == device)
        return "; ".join(
            (f"{device} of {host}", *[THEORY] * theory, "the whole GPU, shared by all ranks on it")
        )
    machine = machines_of(view, host)[-1]
    part = part_of(of_node(ceilings(view, host)), cpus_of(view, host))
    what = f"measured on {part}" if part else "the whole node"
    return f"{machine.cpu_model}, {machine.cpus} CPUs; {what}, shared by all its ranks"


# -- GPUs ---------------------------------------------------------------------------------------------------


def _carrying(view: JobView, number: int) -> list[str]:
    """The GPUs whose counters carry the rank."""
    seen = {p.instance for p in view.parts if p.rank == number and _is_gpu(p)}
    return sorted(seen, key=lambda device: (len(device), device))


def _visible(view: JobView, number: int) -> str:
    """The only GPU that the rank was let see, if the job counts as the node does; "": not known."""
    visible = view.facts.get(number, {}).get(VISIBLE, "")
    return f"gpu {int(visible)}" if visible.isdecimal() else ""


def _is_gpu(part: PartTotal) -> bool:
    return part.metric.counter_set in GPU_SETS and part.instance.startswith("gpu ")


def _alike(view: JobView, host: str, known: Sequence[str]) -> bool:
    """Whether what several of these GPUs were measured for differs little, and each was for some of it. Where
    one was not measured at all their theoretical ceilings are compared."""
    some = [c for c in ceilings(view, host) if c.device in known and c.kind in ROOFING]
    measured = [c for c in some if counts(c) and c.provenance != Provenance.REPORTED]
    by_name: dict[str, dict[str, float]] = {}
    theory = [c for c in some if c.provenance == Provenance.ANALYTIC]
    for c in measured if {c.device for c in measured} == set(known) else theory:
        by_name.setdefault(c.name, {})[c.device] = c.value
    shared = [by_device for by_device in by_name.values() if len(by_device) > 1]
    compared = set().union(*shared)
    return compared == set(known) and all(min(v.values()) >= (1 - ALIKE) * max(v.values()) for v in shared)
