"""`roofline-client machines`: the list, and ceilings side by side."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from roofline.answers.machines import Ceiling, Machine, MachineVersion
from roofline.v1 import machine_pb2
from roofline.v1 import models_pb2 as pb
from roofline_client.errors import NotFound
from roofline_client.tables import machines as form
from roofline_client.tables.text import rendered

from .fake_server import answer, serving
from .reports import BEGIN, SECOND, ceiling
from .test_cli import one_line, run


def made(host: str, number: int, *ceilings: Ceiling, until_ns: int = 0, **more: Any) -> MachineVersion:
    machine = Machine(host, "a CPU", 1, 4, 8, 2**34, "6.1", list(ceilings))
    since_ns = BEGIN + number * SECOND
    return MachineVersion(machine, number, since_ns, until_ns, ["41", "42"], not until_ns, "a")._replace(
        **more
    )


def peak(value: float, **more: Any) -> Ceiling:
    return ceiling("peak.f32.512", "compute", value, **more)


def dram(value: float, **more: Any) -> Ceiling:
    return ceiling("dram.triad", "memory", value, **more)


LATENCY = ceiling("net.tcp.latency", "latency", 4e-5, unit="s", level="network", peer="b")
OLD = made("a", 1, peak(1e12), dram(1e11), until_ns=BEGIN + 2 * SECOND)
NEW = made("a", 2, peak(2e12), dram(5e10), LATENCY)
OTHER = made("b", 1, peak(5e11), ceiling("peak.f64.512", "compute", 2.5e11, precision="f64"))
ALL = [NEW, OLD, OTHER]


def row(found: Any, name: str) -> list[str]:
    (line,) = [line for line in rendered(found).splitlines() if line.startswith(name)]
    return [cell for cell in line.removeprefix(name).split("  ") if cell]


def test_list_shows_the_highest_measured_of_the_whole_machine() -> None:
    one = made(
        "a",
        1,
        peak(1e12),
        peak(2e12),
        peak(3e12, threads=1),  # a turbo core times all of them is not the machine
        peak(9e12, provenance="analytic"),
        dram(1e11),
        dram(9e11, level="l1"),
        ceiling("net.tcp", "network", 1.25e9, unit="byte/s", level="network", peer="b"),
        peak(6e13, device="gpu 0", threads=None),
        ceiling("hbm.read", "memory", 4e12, level="hbm", device="gpu 0"),
    )
    text = form.as_text([one])
    cells = [cell.strip() for cell in row(text, "a ")]
    assert cells[0] == "1" and cells[2:4] == ["a CPU", "8"]
    assert cells[4:8] == ["-", "2 TFLOP/s", "100 GB/s", "1.25 GB/s"]
    assert cells[9:] == ["connected", "2"]
    assert [cell.strip() for cell in row(text, "  gpu 0")][:4] == ["-", "60 TFLOP/s", "4 TB/s", "-"]


def test_doubted_ceilings_have_a_mark_and_a_line() -> None:
    busy = "other processes took 86% of the CPUs meanwhile"
    text = rendered(form.as_text([made("a", 1, peak(1e12, doubt=busy), dram(1e11, doubt=busy))]))
    assert "1 TFLOP/s ?" in text and "100 GB/s ?" in text
    assert f"  ? a@1: peak.f32.512, dram.triad may be higher: {busy}" in text
    assert "?" not in rendered(form.as_text([OLD]))


def test_machine_that_was_never_calibrated_says_so() -> None:
    never = made("a", 1)
    assert [cell.strip() for cell in row(form.as_text([never]), "a ")][4:9] == [*["-"] * 4, "never"]
    assert rendered(form.comparison_text([never, OTHER])).splitlines()[0].endswith(", never calibrated")


def test_states() -> None:
    found = [NEW, OLD, made("c", 1, connected=False)]
    assert [row(form.as_text([one]), f"{one.machine.host} ")[-2].strip() for one in found] == [
        "connected",
        "replaced",
        "not connected",
    ]


def test_side_by_side_with_ratios_to_the_first() -> None:
    found = {c.name: c for c in form.compared([OLD, NEW, OTHER])}
    assert found["peak.f32.512"].values == [1e12, 2e12, 5e11]
    assert found["peak.f32.512"].ratios == [1.0, 2.0, 0.5]
    assert found["dram.triad"].ratios == [1.0, 0.5, None], "absent is not zero"
    assert found["peak.f64.512"].ratios == [None, None, None], "the first has none"
    text = form.comparison_text([OLD, NEW])
    assert [cell.strip() for cell in row(text, "peak.f32.512")] == ["1 TFLOP/s", "2 TFLOP/s", "x2"]
    assert [cell.strip() for cell in row(text, "net.tcp.latency")] == ["-", "40 us", "-"]


def test_theory_is_not_compared_with_what_was_measured() -> None:
    theory = peak(4e12, provenance="analytic")
    found = form.compared([made("a", 1, peak(1e12), theory), made("b", 1, peak(2e12))])
    assert [(c.provenance, c.ratios) for c in found] == [("measured", [1, 2]), ("analytic", [1, None])]
    assert "peak.f32.512 (theory)" in rendered(form.comparison_text([made("a", 1, theory), OTHER]))
    named = theory._replace(name="peak.f32.512.theory")
    text = rendered(form.comparison_text([made("a", 1, named), OTHER]))
    assert "peak.f32.512.theory" in text and "(theory)" not in text


def test_zero_has_no_ratio() -> None:
    assert form.compared([made("a", 1, peak(0.0)), OTHER])[0].ratios == [None, None]


def test_of_links_to_several_peers_the_best_is_compared() -> None:
    slow, fast = LATENCY._replace(value=9e-5, peer="c"), LATENCY
    assert form.compared([made("a", 1, slow, fast), OTHER])[0].values == [4e-5, None]


@pytest.mark.parametrize(
    ("asked", "found"),
    [(["a", "b"], [NEW, OTHER]), (["a@1", "a@2"], [OLD, NEW]), (["b@1", "a"], [OTHER, NEW])],
)
def test_hosts_and_versions_that_are_asked_for(asked: list[str], found: list[MachineVersion]) -> None:
    assert form.chosen(ALL, asked) == found


def test_host_whose_name_holds_an_at() -> None:
    odd = made("gpu@7", 1, peak(1e12))
    assert form.chosen([odd, *ALL], ["gpu@7", "gpu@7@1"]) == [odd, odd]


def test_agents_own_word_goes_before_an_imported_result() -> None:
    imported = made("a", 1, dram(1e9), agent="file")
    imported = imported._replace(machine=imported.machine._replace(cpu_model=""), since_ns=NEW.since_ns + 1)
    assert form.chosen([imported, *ALL], ["a"]) == [NEW]


@pytest.mark.parametrize(("asked", "says"), [("c", "no host 'c'"), ("a@7", "no version 7, only 1, 2")])
def test_what_nobody_has_heard_of(asked: str, says: str) -> None:
    with pytest.raises(NotFound, match=says):
        form.chosen(ALL, ["a", asked])


def test_csv_has_a_row_per_ceiling_and_one_for_a_machine_without() -> None:
    rows = list(csv.DictReader(io.StringIO(form.as_csv([NEW, made("c", 1)]))))
    assert [(r["host"], r["ceiling_name"], r["ceiling_value"]) for r in rows] == [
        ("a", "peak.f32.512", "2000000000000.0"),
        ("a", "dram.triad", "50000000000.0"),
        ("a", "net.tcp.latency", "4e-05"),
        ("c", "", ""),
    ]
    compared = list(csv.DictReader(io.StringIO(form.comparison_csv([OLD, NEW]))))
    assert [(r["ceiling"], r["version"], r["ratio_to_first"]) for r in compared][:2] == [
        ("peak.f32.512", "1", "1.0"),
        ("peak.f32.512", "2", "2.0"),
    ]


def test_names_from_the_wire_steer_nothing() -> None:
    bad = made("a\x1b[2J", 1, peak(1e12)._replace(name="x\x1b"))
    for found in (form.as_text([bad]), form.comparison_text([bad, bad])):
        assert "\x1b" not in rendered(found)


def message(one: MachineVersion) -> Any:
    machine = machine_pb2.Machine(host=one.machine.host, cpu_model="a CPU", cpus=8)
    for c in one.machine.ceilings:
        given = {name: value for name, value in c._asdict().items() if value is not None}
        machine.ceilings.add(**{**given, "provenance": machine_pb2.PROVENANCE_MEASURED})
    said = {"version": one.version, "since_ns": one.since_ns, "until_ns": one.until_ns, "jobs": one.jobs}
    return pb.MachineVersion(machine=machine, **said)


def test_command_asks_and_shows() -> None:
    reply = pb.GetMachinesResponse(machines=[message(m) for m in ALL])
    with serving(GetMachines=answer(reply)) as server:
        said = ["machines", "--server", server.address]
        listed = run(*said, "--host", "a", "--format", "json")
        assert [m["version"] for m in json.loads(listed.stdout)["machines"]] == [2, 1, 1]
        beside = run(*said, "--compare", "a@1", "a@2", "--format", "json")
        assert json.loads(beside.stdout)["ceilings"][0]["ratios"] == [1.0, 2.0]
        assert "a@1" in run(*said, "--compare", "a@1", "--compare", "b").stdout
        assert [(r.host, r.history) for r in server.requests] == [("a", False), ("", True), ("", True)]
        one_line(run(*said, "--compare", "a", "c"), 5, "no host 'c'")


@pytest.mark.parametrize(
    "arguments", [["a"], ["--compare", "a"], ["--compare", "a", "b", "--host", "a"], ["--format", "yaml"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert run("machines", *arguments).returncode == 2


def test_no_machines_yet() -> None:
    with serving(GetMachines=answer(pb.GetMachinesResponse())) as server:
        assert "no machines yet" in run("machines", "--server", server.address).stdout
