"""The files of events: well formed, and with the factors that their sources give."""

from __future__ import annotations

import re

import pytest
from roofline_agent.events import Family, HardwareEvent, UncoreEvent, families, load, parse
from roofline_agent.events.cpu import ARM, INTEL
from roofline_agent.sources.perf_stat.groups import pmu_of

FAMILIES = families()
METRIC = re.compile(
    r"(instructions|cycles|llc_misses|amx_busy_cycles|flops\.(f64|f32|f16|all)\.(scalar|128|256|512|all))$"
)
# intel/perfmon FP_ARITH_INST_RETIRED: operations of one count, by umask.
FP_ARITH = {
    0x01: ("flops.f64.scalar", 1),
    0x02: ("flops.f32.scalar", 1),
    0x04: ("flops.f64.128", 2),
    0x08: ("flops.f32.128", 4),
    0x10: ("flops.f64.256", 4),
    0x20: ("flops.f32.256", 8),
    0x40: ("flops.f64.512", 8),
    0x80: ("flops.f32.512", 16),
}
FP_ARITH2 = {
    0x01: ("flops.f16.scalar", 1),
    0x04: ("flops.f16.128", 8),
    0x08: ("flops.f16.256", 16),
    0x10: ("flops.f16.512", 32),
}


def masks(name: str, code: int) -> dict[int, tuple[str, int]]:
    found = {}
    for event in FAMILIES[name].events:
        match = re.search(r"event=(0x\w+),umask=(0x\w+)/", event.perf)
        if match and int(match[1], 16) == code:
            found[int(match[2], 16)] = (event.metric, event.factor)
    return found


@pytest.mark.parametrize(
    ("name", "widest"),
    [
        ("intel_broadwell", 0x20),
        ("intel_skylake", 0x20),
        ("intel_alder_lake", 0x20),
        ("intel_meteor_lake", 0x20),
        ("intel_skylake_sp", 0x80),
        ("intel_icelake_sp", 0x80),
        ("intel_icelake", 0x80),
        ("intel_sapphire_rapids", 0x80),
        ("intel_granite_rapids", 0x80),
    ],
)
def test_intel_counts_flops_by_width_and_precision(name: str, widest: int) -> None:
    assert masks(name, 0xC7) == {umask: of for umask, of in FP_ARITH.items() if umask <= widest}


@pytest.mark.parametrize("name", ["intel_sapphire_rapids", "intel_granite_rapids"])
def test_amx_machines_count_half_precision_and_say_when_flops_are_incomplete(name: str) -> None:
    assert masks(name, 0xCF) == FP_ARITH2
    assert masks(name, 0xB7) == {0x02: ("amx_busy_cycles", 1)}
    assert "amx_busy_cycles" in FAMILIES[name].note


@pytest.mark.parametrize("name", ["intel_haswell", "arm_neoverse_n1", "generic"])
def test_cpu_that_cannot_count_flops_says_so(name: str) -> None:
    assert not any("flops" in event.metric for event in FAMILIES[name].events)
    assert "floating-point" in FAMILIES[name].note


def test_e_cores_have_other_events_under_other_codes() -> None:
    assert masks("intel_sierra_forest", 0xC7) == {}
    assert masks("intel_sierra_forest", 0xC8) == {0x01: ("flops.f64.all", 1), 0x02: ("flops.f32.all", 1)}


@pytest.mark.parametrize(
    ("name", "umask"), [("amd_zen2", 0xFF), ("amd_zen3", 0xFF), ("amd_zen4", 0x1F), ("amd_zen5", 0x0F)]
)
def test_amd_counts_operations_with_two_counters(name: str, umask: int) -> None:
    (flops,) = [event for event in FAMILIES[name].events if event.unit == "FLOP"]
    assert flops.perf == f"cpu/event=0x03,umask={umask:#04x}/"
    assert (flops.metric, flops.factor, flops.counters) == ("flops.all.all", 1, 2)
    assert FAMILIES[name].counters == 6


def test_arm_flops_are_estimates_of_fixed_and_scalable_vectors() -> None:
    flops = [event for event in FAMILIES["arm_neoverse_v2"].events if event.metric == "flops.all.all"]
    assert [(event.perf, event.scalable, event.estimated) for event in flops] == [
        ("r80c0", True, True),
        ("r80c1", False, True),
    ]


# Event and umask of reads and writes: intel/perfmon, *_uncore.json.
@pytest.mark.parametrize(
    ("name", "reads", "writes"),
    [
        ("intel_haswell", ["0x04,0x03"], ["0x04,0x0c"]),
        ("intel_broadwell", ["0x04,0x03"], ["0x04,0x0c"]),
        ("intel_skylake_sp", ["0x04,0x03"], ["0x04,0x0c"]),
        ("intel_icelake_sp", ["0x04,0x0f"], ["0x04,0x30"]),
        ("intel_sapphire_rapids", ["0x05,0xcf"], ["0x05,0xf0"]),
        ("intel_granite_rapids", ["0x05,0xcf", "0x06,0xcf"], ["0x05,0xf0", "0x06,0xf0"]),
        ("intel_sierra_forest", ["0x05,0xcf", "0x06,0xcf"], ["0x05,0xf0", "0x06,0xf0"]),
    ],
)
def test_memory_controllers_of_intel_servers(name: str, reads: list[str], writes: list[str]) -> None:
    uncore = [event for event in FAMILIES[name].uncore if event.pmu == "uncore_imc_[0-9]*"]
    assert all(event.factor == 64 and event.unit == "byte" for event in uncore)
    for metric, expected in (("dram_read_bytes", reads), ("dram_write_bytes", writes)):
        found = [re.sub("event=|umask=", "", event.event) for event in uncore if event.metric == metric]
        assert found == expected


@pytest.mark.parametrize("name", ["amd_zen2", "amd_zen3"])
def test_every_memory_channel_of_the_data_fabric_is_counted(name: str) -> None:
    codes = [int(event.event.split(",")[0].removeprefix("event="), 16) for event in FAMILIES[name].uncore]
    assert codes == [0x07, 0x47, 0x87, 0xC7, 0x107, 0x147, 0x187, 0x1C7]
    assert {(event.metric, event.factor) for event in FAMILIES[name].uncore} == {("dram_bytes", 64)}


@pytest.mark.parametrize(
    ("name", "read", "write"), [("amd_zen4", "0x7fe", "0x7ff"), ("amd_zen5", "0xffe", "0xfff")]
)
def test_memory_controllers_go_before_the_data_fabric(name: str, read: str, write: str) -> None:
    uncore = FAMILIES[name].uncore
    assert [event.event for event in uncore[:2]] == ["event=0x0a,rdwrmask=0x1", "event=0x0a,rdwrmask=0x2"]
    fabric = [event for event in uncore if event.pmu == "amd_df"]
    assert len(fabric) == len(set(fabric)) == 24
    assert {(e.metric, e.event.split("umask=")[1]) for e in fabric} == {
        ("dram_read_bytes", read),
        ("dram_write_bytes", write),
    }


@pytest.mark.parametrize("family", [one for one in FAMILIES.values() if one.hybrid], ids=lambda one: one.name)
def test_each_kind_of_core_has_one_event_of_a_metric(family: Family) -> None:
    fed = [(event.metric, pmu_of(event)) for event in family.events]
    assert len(fed) == len(set(fed))


def test_grace_counts_reads_in_beats_of_32_bytes_and_writes_in_bytes() -> None:
    assert FAMILIES["arm_neoverse_v2"].uncore == (
        UncoreEvent("nvidia_scf_pmu_[0-9]*", "cmem_rd_data", "dram_read_bytes", "byte", 32),
        UncoreEvent("nvidia_scf_pmu_[0-9]*", "cmem_wr_total_bytes", "dram_write_bytes", "byte", 1),
    )


def test_every_family_that_a_cpu_can_have_has_a_file() -> None:
    assert {*INTEL, *ARM, "generic", "amd_zen2", "amd_zen3", "amd_zen4", "amd_zen5"} <= FAMILIES.keys()


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_family_is_well_formed(family: Family) -> None:
    assert family.note
    assert 3 <= family.counters <= 8
    assert len({event.perf for event in family.events}) == len(family.events)
    assert {"instructions", "cycles"} <= {event.metric for event in family.events}
    for event in family.events:
        assert METRIC.match(event.metric), event
        assert (event.unit == "FLOP") == event.metric.startswith("flops."), event
        assert event.counters <= family.counters
    assert len(set(family.uncore)) == len(family.uncore)
    assert {event.metric for event in family.uncore} <= {"dram_bytes", "dram_read_bytes", "dram_write_bytes"}
    shared = {e.metric for e in family.events if [f.metric for f in family.events].count(e.metric) > 1}
    assert family.hybrid or shared <= {"flops.all.all"}


def test_defaults_of_a_file() -> None:
    family = parse("x", 'event = [{ perf = "p", metric = "m" }]\n')
    assert family == Family("x", "", (HardwareEvent("p", "m", "1", 1),), (), 4, False)


def test_base_comes_first_with_its_events_only() -> None:
    family = parse("x", 'base = "intel_haswell"\nnote = "n"\nevent = [{ perf = "p", metric = "m" }]\n')
    assert family.events == (*load("intel_haswell").events, HardwareEvent("p", "m"))
    assert family.uncore == ()


def test_codes_stand_for_one_event_each() -> None:
    text = 'uncore = [{ pmu = "p", event = "event={code},umask=0x1", codes = [7, 0x47], metric = "m" }]'
    assert parse("x", text).uncore == (
        UncoreEvent("p", "event=0x7,umask=0x1", "m"),
        UncoreEvent("p", "event=0x47,umask=0x1", "m"),
    )


def test_field_that_nobody_knows_is_no_silent_default() -> None:
    with pytest.raises(TypeError):
        parse("x", 'event = [{ perf = "p", metric = "m", faktor = 2 }]')
