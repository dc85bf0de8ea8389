"""Which ceilings bind where ranks of a job compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...model.evidence import RankEvidence
from ...model.roofline.roofs import Limits, limits
from ...model.roofline.summary import has_flops, on_gpu
from ...model.roofline.work import dominant_precision
from ...sentences.wording import joined
from ...store.view import JobView, once
from ..ranks.members import host_of
from .network import network_note, of_network
from .nodes import ceilings, cpus_of
from .places import Place, place_of, places, places_of


@once
def on_device(view: JobView, host: str, device: str, precision: str) -> Limits:
    """What binds on a device: peak compute in a precision, bandwidth by level, launch overhead."""
    every = ceilings(view, host)
    network = of_network(view, host, every)
    mine = [c for c in every if c.device == device and c.kind != "network"]
    found = limits(host, device, [*mine, *network], precision, cpus_of(view, host))
    return found._replace(network_note=network_note(view, host, network))


def of_rank(view: JobView, number: int, precision: str, gpu: bool = False) -> Limits:
    """What binds on the device of a rank. gpu: its kernels ran on a GPU; if it is not known on which,
    `lacks()` is why."""
    return _at(view, place_of(view, number, gpu), precision)


def everywhere(view: JobView, number: int, precision: str, gpu: bool) -> list[Limits]:
    """As `of_rank`, of every GPU that a rank computes on: its steps and phases are theirs together."""
    found = places_of(view, number, host_of(view, number), gpu)
    return [_at(view, place, precision) for place in found]


def of_ranks(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[Limits]:
    """What binds where these ranks did the FLOPs that are known of them, in the precision of most of these;
    each place once."""
    return _each_once(view, places(view, computing(ranks)).values(), ranks)


def of_roles(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[Limits]:
    """What binds wherever these ranks compute: one of which no FLOPs are known as the others of its role do,
    on CPUs or on a GPU of its own. A role of which none are known is left out."""
    known = {number: on_gpu([r]) for number, r in computing(ranks).items() if r.kernels is not None}
    roles = {ranks[number].role: gpu for number, gpu in known.items()}
    found = []
    for number, rank in ranks.items():
        if rank.role in roles:
            gpu = known.get(number, roles[rank.role])
            found.append(places_of(view, number, rank.host, gpu))
    return _each_once(view, found, ranks)


def computing(ranks: Mapping[int, RankEvidence]) -> dict[int, RankEvidence]:
    """The ranks whose FLOPs are known, of these; all where none are."""
    known = has_flops(list(ranks.values()))
    if not any(known):
        return dict(ranks)
    return {number: rank for (number, rank), has in zip(ranks.items(), known, strict=True) if has}


def _each_once(
    view: JobView, found: Iterable[Sequence[Place]], ranks: Mapping[int, RankEvidence]
) -> list[Limits]:
    precision = dominant_precision(list(ranks.values()))
    distinct: dict[tuple[str, str | None], Place] = {}
    for mine in found:
        for place in mine:
            if place.host:
                distinct.setdefault((place.host, place.device), place)
    return [_at(view, place, precision) for place in distinct.values()]


def _at(view: JobView, place: Place, precision: str) -> Limits:
    if place.device is None:
        return Limits(place.host, "gpu", precision, None, {}, nowhere=place.note)
    found = on_device(view, place.host, place.device, precision)
    return found._replace(note=joined(place.note, found.note))
