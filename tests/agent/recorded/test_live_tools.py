"""Files made by the tools of this machine just now, in every form that they print."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from roofline_agent.recorded.errors import NotRecognised

from .traces import read

EVENTS = ("task-clock", "page-faults", "context-switches")
C = {**os.environ, "LC_ALL": "C"}


def perf_stat(tmp_path: Path, *options: str) -> Path:
    """A file that `perf stat` wrote. Skips where there is no perf or it may not count."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    path = tmp_path / "perf.txt"
    command = ["perf", "stat", *options, "-e", ",".join(EVENTS), "-o", str(path), "--", "sleep", "0.05"]
    done = subprocess.run(command, env=C, capture_output=True, text=True, timeout=60)
    if done.returncode or not path.exists() or "<not" in path.read_text():
        pytest.skip(f"perf does not count software events here: {done.stderr.strip()[-100:]}")
    return path


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-x,",),
        ("-x;",),
        ("-x", "\t"),
        ("-j",),
        ("-r", "3"),
        ("-r", "3", "-x,"),
        ("-d",),
        ("--no-merge",),
    ],
    ids=lambda options: "".join(options) or "human",
)
def test_perf_counts_each_event_in_every_form(options: tuple[str, ...], tmp_path: Path) -> None:
    found = read(str(perf_stat(tmp_path, *options)))
    assert found.tool == "perf stat"
    named = {one.metric: one for one in found.counters}
    assert set(EVENTS) <= set(named)
    assert 0 < (named["task-clock"].value or 0) < 60
    assert named["task-clock"].unit == "s"
    assert (named["page-faults"].value or 0) > 10
    human = not any(option.startswith(("-x", "-j")) for option in options)
    assert (found.duration_s is not None) == human
    assert found.facts.get("runs") == (3 if human and "-r" in options else None)


@pytest.mark.parametrize("options", [("-x,",), ("-j",), ()], ids=lambda options: "".join(options) or "human")
def test_perf_intervals_stand_in_their_order(options: tuple[str, ...], tmp_path: Path) -> None:
    found = read(str(perf_stat(tmp_path, "-I", "10", *options)))
    times = [one.t_s for one in found.counters if one.metric == "page-faults" and one.t_s is not None]
    assert times == sorted(times) and len(times) > 1
    assert {one.kind for one in found.counters if one.t_s is not None} == {"delta"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("likwid-bench") is None, reason="likwid-bench is not installed")
@pytest.mark.parametrize(("test", "ceiling"), [("load", "l1.read"), ("peakflops", "peak.f64.scalar.mul_add")])
def test_likwid_bench_gives_a_ceiling(test: str, ceiling: str, tmp_path: Path) -> None:
    command = ["likwid-bench", "-t", test, "-w", "N:12kB:1", "-i", "200000"]
    done = subprocess.run(command, env=C, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"likwid-bench does not run here: {done.stderr.strip()[-100:]}")
    path = tmp_path / "bench.txt"
    path.write_text(done.stdout)
    [one] = read(str(path)).ceilings
    assert (one.name, one.value > 1e8) == (ceiling, True)


@pytest.mark.skipif(shutil.which("likwid-topology") is None, reason="likwid-topology is not installed")
def test_topology_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "topology.txt"
    path.write_text(subprocess.run(["likwid-topology"], capture_output=True, text=True, timeout=60).stdout)
    with pytest.raises(NotRecognised):
        read(str(path))
