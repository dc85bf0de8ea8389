"""LIKWID as a live source: a scripted likwid-perfctr, recorded timelines, the real one where there is one."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from roofline_agent.records import Rank, Sample, Scope, SourceSettings, SourceStatus
from roofline_agent.sources.likwid import LikwidSource, first_cpus, why_not
from roofline_agent.sources.likwid_timeline import RunningTimeline, VolumeInterval, VolumeReader

from tests.fakes import wait_for
from tests.recordings import corpus, meets, oracles

from .fake_tools import counting_perf, intel, proc_tree, script, sys_tree

RANK = Rank("j", "worker", 0, os.getpid(), 1)
READ, WRITTEN, BOTH = (f"Memory {kind}data volume [GBytes]" for kind in ("read ", "write ", ""))
HEADER = f"""--------------------------------------------------------------------------------
CPU name:	some CPU
--------------------------------------------------------------------------------
# HWThreads: 0|4
# GID|MetricsCount|CpuCount|Total runtime [s]|Clock [MHz]|{READ}|{WRITTEN}
"""
ROWS = """1 3 2 0.5 2000 2100 0.001 0.002 0.25 0.5
1 3 2 1.0 2000 2100 0.001 0.002 0.25 0.5
"""
GROUPS = """Group name	Description
--------------------------------------------------------------------------------
   CLOCK	Power
     MEM	Memory bandwidth
"""


def likwid(tmp_path: Path, measuring: str) -> Path:
    """A likwid-perfctr with a group MEM, that does this when it is to measure."""
    (tmp_path / "header").write_text(HEADER)
    (tmp_path / "rows").write_text(ROWS)
    (tmp_path / "groups").write_text(GROUPS)
    body = f"""cd {tmp_path}
[ "$1" = -a ] && exec cat groups
echo "$*" >> calls
for last; do :; done
{measuring}"""
    return script(tmp_path, body, "likwid-perfctr")


MEASURES = "cat header; cat rows >&2; [ $last = cat ] && exec cat"


def source_of(tmp_path: Path, tool: Path | str, perf_value: str = "<not supported>") -> LikwidSource:
    (tmp_path / "bin").mkdir()
    perf = counting_perf(tmp_path / "bin", ("", perf_value, ""))
    sys = sys_tree(tmp_path / "sys")
    for cpu, socket in ((0, 0), (1, 0), (4, 1), (5, 1)):
        topology = sys / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
    environ = {"ROOFLINE_PERF": str(perf), "ROOFLINE_LIKWID": str(tool)}
    proc = proc_tree(tmp_path / "proc", intel(0x8F))
    return LikwidSource(SourceSettings(proc=str(proc), sys=str(sys), environ=environ))


def status_of(tmp_path: Path, measuring: str) -> SourceStatus:
    return source_of(tmp_path, likwid(tmp_path, measuring)).probe()


def collect(source: LikwidSource, count: int) -> list[Sample]:
    rows: list[Sample] = []
    wait_for(lambda: (rows.extend(source.sample([RANK])), len(rows) >= count)[1], f"{count} rows of LIKWID")
    return rows


# Put together by hand as src/applications/likwid-perfctr.lua of each release writes it (5.2.2: the script in
# Debian's package `likwid`), with the metrics of group ICX/MEM. None is the output of a run: LIKWID could not
# count on the virtual machine where this was written.
METRICS = (
    "Runtime (RDTSC) [s]|Runtime unhalted [s]|Clock [MHz]|CPI|Memory read bandwidth [MBytes/s]|"
    "Memory read data volume [GBytes]|Memory write bandwidth [MBytes/s]|Memory write data volume [GBytes]|"
    "Memory bandwidth [MBytes/s]|Memory data volume [GBytes]"
)
LEADING = "GID|MetricsCount|CpuCount|Total runtime [s]|"
HEADERS = {
    "4.2": f"# CORES: 0|4\n\n# {METRICS}\n\n",
    "4.3.2": f"# CORES: 0|4\n# {METRICS}\n",
    "4.3.4": f"# Cores: 0|4\n# {LEADING}{METRICS}\n",
    "5.0": f"# Cores: 0|4\n# {LEADING}{METRICS}\n",
    "5.2.2": f"# HWThreads: 0|4\n# {LEADING}{METRICS}\n",
    "5.5": f"# HWThreads: 0|4\n# {LEADING}{METRICS}\n",
}
# An idle CPU has no CPI: 0 cycles by 0 instructions, which LIKWID 5 prints as "-".
IDLE_ROW = "1 10 2 0.5 0.5 0.5 0.1 0.1 2000 2100 0.9 - 2 4 0.001 0.002 500 1000 0.25 0.5 502 1004 0.251 0.502"


def read_all(reader: VolumeReader, text: str) -> list[VolumeInterval]:
    return [interval for line in text.splitlines() if (interval := reader.read(line)) is not None]


@pytest.mark.parametrize("version", HEADERS)
def test_header_of_every_version_names_cpus_and_volumes(version: str) -> None:
    reader = VolumeReader()
    (interval,) = read_all(reader, HEADERS[version] + IDLE_ROW)
    assert reader.metrics == ["dram_read_bytes", "dram_write_bytes"]
    assert interval.seconds == 0.5
    assert {key: moved for key, moved in interval.moved.items() if key[1] in reader.metrics} == {
        (0, "dram_read_bytes"): 1e6,
        (4, "dram_read_bytes"): 2e6,
        (0, "dram_write_bytes"): 0.25e9,
        (4, "dram_write_bytes"): 0.5e9,
    }


@pytest.mark.skipif(shutil.which("likwid-perfctr") is None, reason="LIKWID is not installed")
def test_installed_likwid_writes_a_header_that_is_read() -> None:
    script = shutil.which("likwid-perfctr") or ""
    printed = re.findall(r'print\(outprefix *\.\. *"# (\w+)" *\.\. *word_delim', Path(script).read_text())
    assert printed, "the script no longer writes its header so"
    reader = VolumeReader()
    assert read_all(reader, f"# {printed[0]}: 0|4\n# {LEADING}{METRICS}\n{IDLE_ROW}")


@pytest.mark.parametrize(
    "line", ["", "WARN: paranoid", "1 3 2 0.5 2000", "1 3 2 0.5 2000 2100 0.1 0.2 0.25 0.5 7"]
)
def test_other_lines_are_no_row(line: str) -> None:
    assert read_all(VolumeReader(), HEADER + line) == []


def test_row_that_lacks_a_volume_is_left_out() -> None:
    assert read_all(VolumeReader(), HEADER + "1 3 2 0.5 2000 2100 0.001 - 0.25 0.5") == []


def test_row_of_other_columns_or_cpus_than_the_header_is_left_out() -> None:
    assert read_all(VolumeReader(), HEADER + "1 2 2 0.5 2000 2100 0.001 0.002") == []
    assert read_all(VolumeReader(), HEADER + "1 3 1 0.5 2000 0.001 0.25") == []


def test_sum_of_both_directions_is_taken_only_where_they_are_not_told_apart() -> None:
    def metrics(*names: str) -> list[str]:
        reader = VolumeReader()
        reader.read("|".join((f"# {LEADING}x", *names)))
        return reader.metrics

    assert metrics(READ, WRITTEN, BOTH) == ["dram_read_bytes", "dram_write_bytes"]
    assert metrics(BOTH) == ["dram_bytes"]
    assert metrics() == []


@pytest.mark.corpus
def test_recorded_timeline() -> None:
    reader = VolumeReader()
    assert read_all(reader, Path(corpus("likwid/zen2_mem_timeline.out")).read_text()) == []
    points = read_all(reader, Path(corpus("likwid/zen2_mem_timeline.err")).read_text())
    (rows,) = [
        o for o in oracles("likwid") if o.file.endswith("zen2_mem_timeline.err") and o.quantity == "rows"
    ]
    assert meets(rows, len(points))
    for word, metric in (("read", "dram_read_bytes"), ("write", "dram_write_bytes")):
        (volume,) = [o for o in oracles("likwid") if f"{word} volume" in o.quantity]
        assert meets(volume, sum(point.moved[0, metric] for point in points) / 1e9)


def test_first_cpu_of_each_socket(tmp_path: Path) -> None:
    source_of(tmp_path, "x")  # writes the tree
    assert first_cpus(str(tmp_path / "sys")) == {0: 0, 4: 1}
    assert first_cpus(str(tmp_path / "nothing")) == {0: 0}


def test_bytes_of_each_socket(tmp_path: Path) -> None:
    source = source_of(tmp_path, likwid(tmp_path, MEASURES))
    status = source.probe()
    assert status.works and "2 sockets" in status.reason
    assert [m.name for m in source.counter_set.metrics if not m.coverage_of] == [
        "dram_read_bytes",
        "dram_write_bytes",
    ]
    assert {m.scope for m in source.counter_set.metrics} == {Scope.SOCKET}
    rows = collect(source, 6)
    source.close()
    assert {row.rank for row in rows} == {None}
    assert [row.values for row in rows if row.instance == "socket 0"] == [
        (0, None, 0, None),
        (10**6, 1.0, 250 * 10**6, 1.0),
        (2 * 10**6, 1.0, 500 * 10**6, 1.0),
    ]
    assert [row.values[0] for row in rows if row.instance == "socket 1"] == [0, 2 * 10**6, 4 * 10**6]
    times = [row.time_ns for row in rows if row.instance == "socket 0"]
    assert [b - a for a, b in pairwise(times)] == [500_000_000] * 2
    assert "-c 0,4 -g MEM -t 1000ms cat" in (tmp_path / "calls").read_text()


def test_likwid_ends_with_the_last_rank_and_with_the_source(tmp_path: Path) -> None:
    source = source_of(tmp_path, likwid(tmp_path, MEASURES))
    assert source.probe().works
    others = set(psutil.Process().children())
    collect(source, 2)
    (process,) = set(psutil.Process().children()) - others
    assert source.sample([]) == []
    assert not process.is_running()
    collect(source, 2)
    source.close()
    assert set(psutil.Process().children()) <= others


def test_likwid_that_dies_is_reported_once_and_marks_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline_agent.sources.likwid._PAUSE_NS", 0)
    dies = "[ $last = cat ] && { echo 'Cannot get access to MSRs' >&2; exit 1; }"
    body = f"cat header; cat rows >&2; {dies}; exit 0"
    source = source_of(tmp_path, likwid(tmp_path, body))
    assert source.probe().works
    rows: list[Sample] = []
    errors: list[str] = []
    until = time.monotonic() + 10
    while len(rows) < 12 and time.monotonic() < until:
        try:
            rows += source.sample([RANK])
        except OSError as error:
            errors.append(str(error))
        time.sleep(0.005)
    source.close()
    assert errors == ["likwid-perfctr ended: LIKWID cannot read the machine's registers (/dev/cpu/*/msr)"]
    first = [row.values[:2] for row in rows if row.instance == "socket 0"][:5]
    assert first == [(0, None), (10**6, 1.0), (2 * 10**6, 1.0), (2 * 10**6, 0.0), (3 * 10**6, 1.0)]


def test_off_where_perf_counts(tmp_path: Path) -> None:
    source = source_of(tmp_path, likwid(tmp_path, MEASURES), perf_value="5")
    status = source.probe()
    assert not status.works and "perf works" in status.reason
    assert not (tmp_path / "calls").exists(), "its registers were not touched"


def test_not_installed(tmp_path: Path) -> None:
    status = source_of(tmp_path, tmp_path / "nothing").probe()
    assert not status.works and "not installed" in status.reason


def test_cpu_without_a_memory_group(tmp_path: Path) -> None:
    tool = likwid(tmp_path, MEASURES)
    (tmp_path / "groups").write_text(GROUPS.replace("     MEM\t", "    MEM1\t"))
    status = source_of(tmp_path, tool).probe()
    assert not status.works and "no group MEM" in status.reason


def test_no_access_to_registers(tmp_path: Path) -> None:
    status = status_of(
        tmp_path, "echo 'Cannot get access to MSRs. Please check permissions to the MSRs'; exit 1"
    )
    assert not status.works
    assert "registers" in status.reason and "msr module" in status.advice


@pytest.mark.parametrize(
    ("printed", "reason", "advice"),
    [
        ("WARN: Linux kernel configured with paranoid level 2", "perf_event_open", "paranoid=0"),
        ("Exiting due to timeout: The SET_ACCESSMODE ... access daemon", "registers", "likwid-accessD"),
        ("Segmentation fault", "Segmentation fault", ""),
    ],
)
def test_reasons(printed: str, reason: str, advice: str) -> None:
    found = why_not(printed)
    assert reason in found[0] and advice in found[1]


def test_tool_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.sources.likwid.PROBE_TIMEOUT_S", 0.2)
    status = status_of(tmp_path, "exec sleep 60")
    assert not status.works and "cannot be run" in status.reason


def test_timeline_without_a_header_has_no_rows(tmp_path: Path) -> None:
    timeline = RunningTimeline([sys.executable, "-c", "print('1 1 1 0.5 7'); print('1 1 1 1.0 7')"])
    wait_for(lambda: timeline.ended)
    assert timeline.take() == []
    assert "0.5 7" in timeline.messages
    timeline.end()


@pytest.mark.skipif(shutil.which("likwid-perfctr") is None, reason="LIKWID is not installed")
def test_real_likwid_says_what_it_can() -> None:
    source = LikwidSource(SourceSettings(environ=os.environ))
    status = source.probe()
    assert status.works or status.reason
    try:
        if status.works:
            assert {row.rank for row in collect(source, 4)} == {None}
    finally:
        source.close()
