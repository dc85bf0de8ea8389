"""What of a run becomes the ceilings of a node, and how they are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.machine import Machine
from roofline_agent.netbench import kept
from roofline_agent.netbench.ceilings import ceilings, disturbed, merged

from .results import measured

MACHINE = Machine("node1", "cpu", 1, 2, 4, 8, "k")
RUN = [
    measured("tcp.latency", 3e-5, 2e-5, 4e-5),
    measured("tcp.latency.small", 1e-9),
    measured("tcp.bandwidth", 9.0, 8.0, 10.0),
    measured("tcp.bandwidth.4", 11.0, 7.0, 12.0),
    measured("grpc.latency.uniform.small", 5e-4),
    measured("grpc.latency.uniform.large", 1e-9),
    measured("grpc.bandwidth.skewed", 5.0),
    measured("grpc.ps.skewed.bytes", 99.0),
]


def found(loopback: bool = False) -> dict[str, Ceiling]:
    return {one.name: one for one in ceilings(RUN, "node2", loopback)}


def test_the_best_number_of_streams_is_the_roof() -> None:
    roof = found()["net.tcp"]
    assert (roof.value, roof.median, roof.unit, roof.peer) == (11.0, 11.0, "byte/s", "node2")
    assert roof.spread == pytest.approx(5 / 12)
    assert (roof.kind, roof.level, roof.device) == ("network", "network", "")
    assert "tcp.bandwidth.4" in roof.method and "node2" in roof.method


def test_what_piled_up_in_a_stall_is_no_ceiling() -> None:
    """A link of 60, of which the receiver read nothing for a while, and then what had piled up."""
    (roof,) = ceilings([measured("tcp.bandwidth", 60.0, 35.0, 85.0, 60.0, 60.0)], "node2", False)
    assert (roof.value, roof.median) == (60.0, 60.0)


def test_ceiling_is_never_below_its_median() -> None:
    """Something else had the CPUs in one of four windows."""
    (roof,) = ceilings([measured("tcp.bandwidth", 2.3, 0.7, 2.2, 2.3)], "node2", False)
    assert roof.median is not None and roof.value == roof.median > 2.0
    assert roof.doubt == "the repeats differ by 70%: something else used network or CPUs"


def test_rate_that_only_grew_is_slow_start() -> None:
    (roof,) = ceilings([measured("tcp.bandwidth", 1.0, 2.0, 4.0, 8.0)], "node2", False)
    assert roof.doubt == "the rate was still growing, by 88% over the measurement: TCP's slow start"
    assert disturbed([roof]) == [f"net.tcp: {roof.doubt}; measure again for longer (--seconds)"]


def test_a_parameter_server_moves_both_ways_and_makes_no_roof() -> None:
    assert found()["net.grpc"].value == 5.0


def test_latencies_are_those_of_the_smallest_message() -> None:
    tcp, grpc = found()["net.tcp.latency"], found()["net.grpc.latency"]
    assert (tcp.value, tcp.median, tcp.kind, tcp.unit) == (2e-5, 3e-5, "latency", "s")
    assert tcp.spread == pytest.approx(0.5)
    assert grpc.value == 5e-4


def test_loopback_is_said() -> None:
    assert all("loopback" in one.method for one in found(loopback=True).values())
    assert not any("loopback" in one.method for one in found().values())


def test_what_was_not_measured_is_no_ceiling() -> None:
    assert [one.name for one in ceilings(RUN[:1], "node2", False)] == ["net.tcp.latency"]


def test_repeats_that_differ_are_noted() -> None:
    quiet = ceilings([measured("tcp.bandwidth", 9.0, 8.0, 10.0)], "node2", False)
    loud = ceilings([measured("tcp.bandwidth", 9.0, 4.0, 10.0)], "node2", False)
    assert disturbed(quiet) == []
    (note,) = disturbed(loud)
    assert note.startswith("net.tcp: the repeats differ by 60%")


def test_a_run_replaces_what_is_kept_of_the_same_peer() -> None:
    old = ceilings([measured("tcp.latency", 1.0), measured("tcp.bandwidth", 1.0)], "node2", False)
    other = ceilings([measured("tcp.latency", 1.0)], "node3", False)
    new = ceilings([measured("tcp.latency", 2.0)], "node2", False)
    assert merged([*old, *other], new) == (*other, *new)
    assert merged(old, ()) == old


def test_ceilings_are_kept_and_read_again(tmp_path: Path) -> None:
    assert kept.load(tmp_path, MACHINE) == ()
    now = kept.keep(tmp_path, MACHINE, ceilings(RUN, "node2", False))
    both = kept.keep(tmp_path, MACHINE, ceilings(RUN, "node3", False))
    assert kept.load(tmp_path, MACHINE) == both and set(now) < set(both)


def test_ceilings_of_another_machine_are_not_read_and_not_kept(tmp_path: Path) -> None:
    kept.keep(tmp_path, MACHINE, ceilings(RUN, "node2", False))
    other = MACHINE._replace(cpu_model="another CPU")
    assert kept.load(tmp_path, other) == ()
    new = ceilings(RUN, "node3", False)
    assert kept.keep(tmp_path, other, new) == kept.load(tmp_path, other) == tuple(new)


def test_a_file_that_cannot_be_read_is_said_and_the_next_run_replaces_it(tmp_path: Path) -> None:
    kept.path_in(tmp_path).write_text("nonsense")
    with pytest.raises(CalibrationError, match=r"network\.json"):
        kept.load(tmp_path, MACHINE)
    kept.keep(tmp_path, MACHINE, ceilings(RUN, "node2", False))
    assert json.loads(kept.path_in(tmp_path).read_text())["host"] == "node1"
