from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance, Scope
from roofline_server.correlate.parts import PartTotal
from roofline_server.model.roofline.roofs import Limits
from roofline_server.records import NODE_RANK, Metric
from roofline_server.report.ceilings import limits, places
from roofline_server.report.ceilings.nodes import ceilings
from roofline_server.report.ceilings.places import place_of
from roofline_server.report.ceilings.roofs import roofs
from roofline_server.sentences import network as network_texts
from roofline_server.sentences import rooflines as texts
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import DRAM, PEAK_F32, PEAK_F64
from ..nodes import A, B, job_on, number_of

L3 = DRAM._replace(name="l3.read", level="l3", operation="read", value=4e11)
NETWORK = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0, peer="hostb")
LAUNCH = Ceiling("launch", "overhead", "", "", 0, 4e-6, "s", 0, "", 0)


def gpu(number: int, peak: float = 1e13, bandwidth: float = 1e12) -> tuple[Ceiling, ...]:
    device = f"gpu {number}"
    return (
        PEAK_F32._replace(name="peak.f32", width=0, value=peak, device=device),
        DRAM._replace(name="hbm.read", level="hbm", value=bandwidth, device=device),
    )


def of_first(view: JobView, gpu: bool = False) -> Limits:
    return limits.of_rank(view, number_of(view, 0), "f32", gpu)


def carries(instance: str, rank_number: int, counter_set: str = "gpu") -> PartTotal:
    metric = Metric(counter_set, "utilization", 2, "1", Scope.GPU, Provenance.MEASURED, True, "")
    return PartTotal(rank_number, 1, instance, metric, 1.0, mean=0.5)


# -- roofs ------------------------------------------------------------------------------------------------


def test_every_host_and_device_has_a_roof(store: Store) -> None:
    ceilings = (PEAK_F32._replace(time_ns=9), DRAM, LAUNCH, *gpu(0), *gpu(10), *gpu(2))
    found = roofs(job_on(store, A, B, ceilings=ceilings), "f32")
    assert [(roof.host, roof.device) for roof in found] == [
        ("hosta", ""),
        ("hosta", "gpu 0"),
        ("hosta", "gpu 2"),
        ("hosta", "gpu 10"),
        ("hostb", ""),
    ]
    assert [c.name for c in found[0].ceilings] == ["peak.f32.512", "dram.triad", "launch"]
    assert (found[0].calibrated_ns, found[0].note) == (
        9,
        texts.roof_of_cpus("a CPU", 48, ""),
    )
    assert {line.name: line.binding for line in found[1].lines} == {"hbm.read": True, "peak.f32": True}


@pytest.mark.parametrize(
    "kind, drawn",
    [
        ("classic", {"dram.triad": True, "l3.read": False, "peak.f32.512": True}),
        ("hierarchical", {"dram.triad": True, "l3.read": True, "net.tcp": True, "peak.f32.512": True}),
        ("network", {"net.tcp": True, "peak.f32.512": True}),
    ],
)
def test_kind_decides_which_levels_bind(store: Store, kind: str, drawn: dict[str, bool]) -> None:
    view = job_on(store, A, B, ceilings=(PEAK_F32, PEAK_F64, DRAM, L3, NETWORK))
    first = roofs(view, "f32", kind=kind)[0]
    assert {line.name: line.binding for line in first.lines} == drawn
    assert len(first.ceilings) == 5


def test_host_without_ceilings_has_an_empty_roof(store: Store) -> None:
    (found,) = roofs(job_on(store, A, ceilings=()), "f32")
    assert (found.host, found.lines, found.ceilings, found.calibrated_ns) == ("hosta", [], [], 0)


def test_of_ceilings_measured_twice_the_newest_counts(store: Store) -> None:
    newer = PEAK_F32._replace(value=3e12, time_ns=7)
    view = job_on(store, A, ceilings=(newer, PEAK_F32, DRAM))
    assert ceilings(view, "hosta") == [newer, DRAM]


# -- what binds for a rank --------------------------------------------------------------------------------


def test_rank_is_held_against_its_node(store: Store) -> None:
    found = of_first(job_on(store, A, B, ceilings=(PEAK_F32, DRAM, LAUNCH)))
    assert found.lacks() == ""
    assert (found.host, found.device, found.compute, found.launch) == ("hosta", "", PEAK_F32, LAUNCH)
    assert found.bandwidth() == DRAM


def test_single_core_ceilings_are_told_by_the_node(store: Store) -> None:
    one = PEAK_F32._replace(name="peak.f32.512.one", threads=1, value=9e13)
    assert of_first(job_on(store, A, ceilings=(one, PEAK_F32, DRAM))).compute == PEAK_F32


def test_roof_measured_in_a_cpuset_says_so(store: Store) -> None:
    view = job_on(store, A, ceilings=(PEAK_F32._replace(threads=4), DRAM._replace(threads=4)))
    assert of_first(view).part == "4 of 48 CPUs"
    assert roofs(view, "f32")[0].note == texts.roof_of_cpus("a CPU", 48, texts.some_cpus(4, 48))


def test_network_ceiling_is_that_to_the_nodes_of_the_job(store: Store) -> None:
    elsewhere = NETWORK._replace(peer="hostz", value=5e9)
    itself = NETWORK._replace(peer="hosta", value=9e9)
    view = job_on(store, A, B, ceilings=(PEAK_F32, NETWORK, elsewhere, itself))
    assert limits.on_device(view, "hosta", "", "f32").bandwidth("network") == NETWORK
    view = job_on(store, A, B, ceilings=(PEAK_F32, elsewhere, itself))
    found = limits.on_device(view, "hosta", "", "f32")
    assert found.bandwidth("network") == elsewhere
    assert found.network_note == network_texts.to_other_nodes(["hostz"])


def test_network_that_only_the_peer_measured_is_taken_the_other_way_round(store: Store) -> None:
    view = job_on(store, A, B, ceilings=(PEAK_F32, DRAM, NETWORK))
    found = limits.on_device(view, "hostb", "", "f32")
    slope = found.bandwidth("network")
    assert slope and (slope.value, slope.peer, found.lacks("network")) == (1e9, "hosta", "")
    assert "from hosta to hostb, not the other way" in found.network_note
    assert network_texts.to_measure("hostb", "hosta") in found.network_note
    (line,) = [x for x in roofs(view, "f32", kind="network")[1].lines if x.kind == "network"]
    assert "from hosta" in line.label
    own = limits.on_device(view, "hosta", "", "f32")
    assert (own.bandwidth("network"), own.network_note) == (NETWORK, "")


def test_what_stays_on_one_node_is_held_against_the_node_itself(store: Store) -> None:
    itself = NETWORK._replace(peer="hosta", value=9e9)
    view = job_on(store, A, ceilings=(PEAK_F32, NETWORK, itself))
    found = limits.on_device(view, "hosta", "", "f32")
    assert found.bandwidth("network") == itself
    assert found.network_note == network_texts.over_loopback("hosta")
    view = job_on(store, A, ceilings=(PEAK_F32, NETWORK))
    assert limits.on_device(view, "hosta", "", "f32").bandwidth("network") is None


def nic(view: JobView, host: str, instance: str, name: str, number: float) -> PartTotal:
    node = next(n for n, machine in view.machines.items() if machine.host == host)
    told = PartTotal(
        NODE_RANK,
        node,
        instance,
        Metric("network", name, 1, "byte", Scope.NODE, Provenance.MEASURED, True, ""),
        1.0,
    )
    return told._replace(**{"mean" if "link" in name else "grown": number})


def test_speed_of_the_busiest_nic_stands_in_for_a_measurement(store: Store) -> None:
    view = job_on(store, A, B, ceilings=(PEAK_F32, DRAM))
    speed, sent = "nic_link_bytes_per_second", "nic_sent_bytes"
    parts = [
        *(nic(view, "hosta", *told) for told in (("eth0", speed, 1e8), ("eth0", sent, 5.0))),
        *(nic(view, "hosta", *told) for told in (("ib0", speed, 1e10), ("ib0", sent, 9e9))),
        *(nic(view, "hosta", *told) for told in (("lo", speed, 1e12), ("lo", sent, 9e12))),
        nic(view, "hostb", "eth1", speed, 7e9),
    ]
    view = view._replace(parts=parts)
    found = limits.on_device(view, "hosta", "", "f32")
    slope = found.bandwidth("network")
    assert slope and (slope.value, slope.provenance) == (1e10, Provenance.REPORTED)
    assert "ib0" in found.network_note and "bench net" in found.network_note
    measured = view._replace(
        machines={n: m._replace(ceilings=(PEAK_F32, NETWORK)) for n, m in view.machines.items()}
    )
    assert limits.on_device(measured, "hosta", "", "f32").bandwidth("network") == NETWORK
    other = limits.on_device(view, "hostb", "", "f32").bandwidth("network")
    assert other and other.value == 7e9


# -- GPUs -------------------------------------------------------------------------------------------------


def test_gpu_of_a_rank_is_the_one_whose_counters_carry_it(store: Store) -> None:
    view = job_on(store, A, ceilings=(PEAK_F32, *gpu(0), *gpu(1, 5e13)))
    one = number_of(view, 1)
    view = view._replace(
        parts=[carries("gpu 1", one), carries("gpu 0", NODE_RANK), carries("lo", one, "network")]
    )
    found = limits.of_rank(view, one, "f32", gpu=True)
    assert (found.device, found.compute and found.compute.value) == ("gpu 1", 5e13)


def test_gpu_of_a_rank_is_the_only_one_it_may_see(store: Store) -> None:
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1, 5e13)))
    first = number_of(view, 0)
    told = view._replace(facts={first: {"setting.CUDA_VISIBLE_DEVICES": "1"}})
    assert place_of(told, first, gpu=True).device == "gpu 1"
    several = view._replace(facts={first: {"setting.CUDA_VISIBLE_DEVICES": "0,1"}})
    assert place_of(several, first, gpu=True).device is None


def test_only_gpu_of_a_node_is_the_one(store: Store) -> None:
    view = job_on(store, A, ceilings=gpu(3))
    assert place_of(view, number_of(view, 0), gpu=True) == ("hosta", "gpu 3", "")


def test_ranks_of_alike_gpus_are_spread_over_them_with_a_note(store: Store) -> None:
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1, 0.95e13)))
    found = [place_of(view, number_of(view, index), gpu=True) for index in (0, 1)]
    assert [place.device for place in found] == ["gpu 0", "gpu 1"]
    assert all("2 GPUs" in place.note and "alike" in place.note for place in found)


@pytest.mark.parametrize(
    "ceilings",
    [
        (*gpu(0), *gpu(1, 0.8e13)),
        (*gpu(0), *gpu(1, bandwidth=2e12)),
        (gpu(0)[0], gpu(1)[1]),
        (*gpu(0), *gpu(1), *gpu(2, 0.8e13)),
    ],
)
def test_gpus_that_differ_are_not_taken_for_each_other(store: Store, ceilings: Any) -> None:
    found = of_first(job_on(store, A, ceilings=ceilings), gpu=True)
    assert found.compute is None
    assert found.lacks() == texts.different_gpus(len({c.device for c in ceilings}), "hosta")


def test_gpu_without_ceilings_is_the_reason(store: Store) -> None:
    found = of_first(job_on(store, A), gpu=True)
    assert found.lacks() == texts.gpu_without_ceilings("hosta")


def test_ceiling_that_one_gpu_has_alone_makes_it_no_other(store: Store) -> None:
    tf32 = gpu(0)[0]._replace(name="peak.tf32", precision="tf32")
    reported = gpu(0)[0]._replace(name="told", provenance=Provenance.REPORTED)
    other = reported._replace(device="gpu 1", value=9e13)
    found = of_first(job_on(store, A, ceilings=(*gpu(0), tf32, reported, *gpu(1), other)), gpu=True)
    assert (found.device, found.lacks()) == ("gpu 0", "")


def test_rank_on_two_gpus_is_held_against_both(store: Store) -> None:
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1, 5e13)))
    one = number_of(view, 1)
    view = view._replace(parts=[carries("gpu 1", one), carries("gpu 0", one)])
    found = limits.everywhere(view, one, "f32", gpu=True)
    assert [(limit.device, limit.compute and limit.compute.value) for limit in found] == [
        ("gpu 0", 1e13),
        ("gpu 1", 5e13),
    ]
    assert all("2 GPUs" in limit.note for limit in found)


def test_gpu_without_ceilings_does_not_get_those_of_another(store: Store) -> None:
    view = job_on(store, A, ceilings=gpu(1))
    one = number_of(view, 1)
    found = limits.of_rank(view._replace(parts=[carries("gpu 0", one)]), one, "f32", gpu=True)
    assert (found.device, found.compute) == ("gpu 0", None)
    assert "hosta gpu 0 was never calibrated" in found.lacks()


def test_part_of_a_gpu_has_no_roof(store: Store) -> None:
    view = job_on(store, A, ceilings=gpu(0))
    first = number_of(view, 0)
    view = view._replace(
        facts={first: {"setting.CUDA_VISIBLE_DEVICES": "MIG-9a3f2c"}}, parts=[carries("gpu 0", first)]
    )
    found = limits.of_rank(view, first, "f32", gpu=True)
    assert found.compute is None
    assert found.lacks() == texts.part_of_gpu("MIG-9a3f2c")


def test_gpu_on_which_a_rank_hardly_was_is_no_place_of_its_work(store: Store) -> None:
    """It loads a checkpoint onto the first GPU, at the begin and at the end, and computes on the second."""
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1, 5e13)))
    one = number_of(view, 1)
    passing = carries("gpu 0", one)._replace(seconds=1000.0, samples=5)
    lasting = carries("gpu 1", one)._replace(seconds=900.0, samples=900)
    view = view._replace(parts=[passing, lasting])
    assert places.places_of(view, one, "hosta", gpu=True) == [("hosta", "gpu 1", "")]


def test_gpu_by_cuda_visible_devices_is_noted_as_a_guess(store: Store) -> None:
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1, 5e13)))
    first = number_of(view, 0)
    view = view._replace(facts={first: {"setting.CUDA_VISIBLE_DEVICES": "0"}})
    note = limits.of_rank(view, first, "f32", gpu=True).note
    assert "by CUDA_VISIBLE_DEVICES" in note and "ConstrainDevices" in note
    carried = view._replace(parts=[carries("gpu 1", first)])
    assert place_of(carried, first, gpu=True) == ("hosta", "gpu 1", "")


def theoretical(number: int) -> list[Ceiling]:
    analytic = Provenance.ANALYTIC
    return [c._replace(name=f"{c.name}.theory", provenance=analytic) for c in gpu(number)]


def test_theory_stands_in_for_a_gpu_that_nobody_measured(store: Store) -> None:
    view = job_on(store, A, ceilings=theoretical(0))
    found = of_first(view, gpu=True)
    assert (found.device, found.lacks(), found.attainable(1.0)) == ("gpu 0", "", 1e12)
    assert "theoretical ceilings" in found.note
    roof = roofs(view, "f32")[1]
    assert "theoretical ceilings" in roof.note
    assert [(line.binding, line.provenance) for line in roof.lines] == [(True, Provenance.ANALYTIC)] * 2


def test_theory_of_a_gpu_that_was_measured_does_not_bind(store: Store) -> None:
    high = [c._replace(value=9 * c.value) for c in theoretical(0)]
    view = job_on(store, A, ceilings=(*gpu(0), *high))
    found = of_first(view, gpu=True)
    assert (found.attainable(1.0), found.note) == (1e12, "")
    assert {line.name for line in roofs(view, "f32")[1].lines if line.binding} == {
        "peak.f32",
        "hbm.read",
    }
    alone = job_on(store, A, ceilings=(gpu(0)[0], *high))
    assert "no HBM bandwidth of hosta gpu 0" in of_first(alone, gpu=True).lacks()


def test_gpus_not_all_measured_are_alike_by_theory(store: Store) -> None:
    view = job_on(store, A, ceilings=(*gpu(0), *theoretical(0), *theoretical(1)))
    found = [limits.of_rank(view, number_of(view, at), "f32", gpu=True) for at in (0, 1)]
    assert [(limit.device, "theoretical" in limit.note) for limit in found] == [
        ("gpu 0", False),
        ("gpu 1", True),
    ]


class Counted(list[PartTotal]):
    """How often somebody went through it."""

    times = 0

    def __iter__(self) -> Iterator[PartTotal]:
        self.times += 1
        return super().__iter__()


def test_parts_and_ranks_are_looked_through_once_for_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = places.host_of
    monkeypatch.setattr(places, "host_of", lambda view, number: asked.append(number) or real(view, number))
    parts = Counted([carries("gpu 0", 7), carries("gpu 1", 8)])
    view = job_on(store, A, ceilings=(*gpu(0), *gpu(1)))._replace(parts=parts)
    found = [places.places_of(view, number, "hosta", True) for number in view.ranks for _ in range(5)]
    assert {place.device for mine in found for place in mine} == {"gpu 0", "gpu 1"}
    assert parts.times == 1 and len(asked) == len(view.ranks)
