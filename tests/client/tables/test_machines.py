"""`roofline-client machines`: the list, and ceilings side by side."""

from __future__ import annotations

import csv
import io
import json

import pytest
from roofline.convert import to_message
from roofline.v1 import models_pb2 as pb
from roofline_client.tables import machines as form
from roofline_client.tables.text import rendered

from ..command_line import one_line, run
from ..fake_server import answer, serving
from ..machine_versions import ALL, NEW, OLD, dram, made, peak, row
from ..reports import ceiling


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


def test_states() -> None:
    found = [NEW, OLD, made("c", 1, connected=False)]
    assert [row(form.as_text([one]), f"{one.machine.host} ")[-2].strip() for one in found] == [
        "connected",
        "replaced",
        "not connected",
    ]


def test_csv_has_a_row_per_ceiling_and_one_for_a_machine_without() -> None:
    rows = list(csv.DictReader(io.StringIO(form.as_csv([NEW, made("c", 1)]))))
    assert [(r["host"], r["ceiling_name"], r["ceiling_value"]) for r in rows] == [
        ("a", "peak.f32.512", "2000000000000.0"),
        ("a", "dram.triad", "50000000000.0"),
        ("a", "net.tcp.latency", "4e-05"),
        ("c", "", ""),
    ]


def test_names_from_the_wire_steer_nothing() -> None:
    bad = made("a\x1b[2J", 1, peak(1e12)._replace(name="x\x1b"))
    shown = rendered(form.as_text([bad]))
    assert "\x1b" not in shown and "a?[2J" in shown


def test_command_asks_and_shows() -> None:
    versions = [to_message(pb.MachineVersion(), version) for version in ALL]
    reply = pb.GetMachinesResponse(machines=versions)
    with serving(GetMachines=answer(reply)) as server:
        said = ["machines", "--server", server.address]
        listed = run(*said, "--host", "a", "--format", "json")
        assert [m["version"] for m in json.loads(listed.stdout)["machines"]] == [2, 1, 1]
        assert run(*said, "a", "--format", "json").stdout == listed.stdout
        beside = run(*said, "--compare", "a@1", "a@2", "--format", "json")
        assert json.loads(beside.stdout)["ceilings"][0]["ratios"] == [1.0, 2.0]
        assert "a@1" in run(*said, "--compare", "a@1", "--compare", "b").stdout
        assert [(r.host, r.history) for r in server.requests] == [
            ("a", False),
            ("a", False),
            ("", True),
            ("", True),
        ]
        one_line(run(*said, "--compare", "a", "c"), 5, "no host 'c'")


@pytest.mark.parametrize(
    "arguments",
    [["a", "b"], ["--compare", "a"], ["--compare", "a", "b", "--host", "a"], ["--format", "yaml"]],
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert run("machines", *arguments).returncode == 2


def test_no_machines_yet() -> None:
    with serving(GetMachines=answer(pb.GetMachinesResponse())) as server:
        assert "no machines yet" in run("machines", "--server", server.address).stdout
