"""`roofline-agent import` as a user meets it: files in, a report out, one line for what is no recording."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import OURS

from .conftest import COMMANDS, Site, values

PERF = """\
# started on Sat Nov 21 09:00:00 2026

1.000000000;1000000;;fp_arith_inst_retired.256b_packed_single;1000000000;100.00;;
1.000000000;2000;MiB;uncore_imc_0/cas_count_read/;1000000000;100.00;;
2.000000000;3000000;;fp_arith_inst_retired.256b_packed_single;500000000;50.00;;
2.000000000;<not counted>;MiB;uncore_imc_0/cas_count_read/;0;100.00;;
"""

COLUMNS = (
    *(
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
    ),
    *("Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
)
LAUNCH = (
    *("0", "4711", "python3", "127.0.0.1", "gemm", "1", "7", "(128, 1, 1)", "(64, 1, 1)"),
    *("0", "8.0", "Command line profiler metrics"),
)
METRICS = (
    ("dram__bytes.sum", "Mbyte", "1.50"),
    ("gpu__time_duration.sum", "usecond", "2,000.00"),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "3,000,000"),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", "0"),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "inst", "0"),
)


def quoted(cells: tuple[str, ...]) -> str:
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


NCU = (
    "==PROF== Connected to process 4711 (/usr/bin/python3)\nepoch 1: loss 0.5\n"
    + quoted(COLUMNS)
    + "".join(quoted((*LAUNCH, *metric)) for metric in METRICS)
)


# Of PyTorch's profiler: two steps of half a second each, from UNIX second 10^9 on.
TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [],
    "baseTimeNanoseconds": 10**18,
    "traceEvents": [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{n}",
            "pid": 1,
            "tid": 1,
            "ts": n * 5e5,
            "dur": 5e5,
        }
        for n in range(2)
    ],
}


def run(site: Site, *arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [str(COMMANDS / "roofline-agent"), "import", *map(str, arguments)]
    return subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=120, **more)


def dry(site: Site, path: Path) -> dict[str, Any]:
    done = run(site, "--dry-run", "--format", "json", path)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def written(site: Site, name: str, text: str | bytes) -> Path:
    path = site.folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_dry_run_needs_no_server_and_prints_one_object_a_file(site: Site) -> None:
    perf, ncu = written(site, "a", PERF), written(site, "b", NCU)
    done = run(site, "--dry-run", "--format", "json", perf, ncu)
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["tool"], second["tool"]) == ("perf stat", "ncu")
    (kernel,) = second["kernels"]
    assert kernel["flops"] == 6e6
    assert kernel["bytes"]["dram"] == 1.5e6
    assert kernel["bytes"]["l2"] is None
    assert kernel["time_s"] == pytest.approx(2e-3)
    assert kernel["intensity"]["dram"] == pytest.approx(4)
    assert kernel["flops_per_s"] == pytest.approx(3e9)
    flops = [c for c in first["counters"] if c["metric"] == "flops.f32.256"]
    assert [(c["value"], c["coverage"], c["t_s"]) for c in flops] == [(8e6, 1.0, 1.0), (24e6, 0.5, 2.0)]
    read = [c["value"] for c in first["counters"] if c["metric"] == "dram_read_bytes"]
    assert read == [2000 * 2**20, None]


def test_single_launches_are_listed_where_they_are_asked_for(site: Site) -> None:
    ncu = written(site, "b", NCU)
    done = run(site, "--dry-run", "--format", "json", "--launches", ncu)
    (launch,) = json.loads(done.stdout)["launches"]
    assert (launch["flops"], launch["bytes"]["dram"], launch["count"]) == (6e6, 1.5e6, 1)
    assert launch["time_s"] == pytest.approx(2e-3)
    assert "launches" not in json.loads(run(site, "--dry-run", "--format", "json", ncu).stdout)


def test_file_without_a_value_says_why_in_either_form(site: Site) -> None:
    cut = written(
        site, "c", '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n"GPU activities",1,2\n'
    )
    for form in ("text", "json"):
        done = run(site, "--dry-run", "--format", form, cut)
        assert done.returncode == 1
        assert "no value could be read of it; line 2: row cut short" in done.stderr


def test_file_whose_numbers_have_no_time_is_not_sent(site: Site) -> None:
    site.server()
    path = written(site, "perf.csv", "5,,cycles,1,100.00,,\n")
    done = run(site, "--job", "imp", path)
    assert done.returncode == 1
    assert "nothing is sent, as it does not say when or for how long" in done.stderr
    assert "is at" not in done.stderr
    assert "imp" not in site.ask("jobs").stdout


def test_server_can_be_named_behind_the_command(site: Site) -> None:
    site.server()
    site.environ.pop("ROOFLINE_SERVER")
    done = run(site, "--job", "7", "--server", site.address, written(site, "a", PERF))
    assert done.returncode == 0 and f"is at {site.address} as job 7" in done.stderr


def test_recording_is_reported_and_sent_twice_counts_once(site: Site) -> None:
    site.server()
    ncu, perf = written(site, "b", NCU), written(site, "a", PERF)
    for _ in range(2):
        done = run(site, "--job", "7", "--rank", "3", ncu, perf)
        assert done.returncode == 0, done.stderr
        assert f"is at {site.address} as job 7, worker:3" in done.stderr
    found = values(site.report("7"), "worker:3")
    assert found["flops_per_second"] == pytest.approx(3e9)
    assert found["intensity.dram"] == pytest.approx(4)
    assert found["flops_per_second.measured"] == pytest.approx(32e6 / 2)
    assert found["flops_per_step"] is None


@pytest.mark.slow
def test_files_of_every_kind_are_taken_by_the_server(site: Site) -> None:
    site.server()
    names = (
        "nvidia_smi/loop.csv",
        "xplane/jax_0.10_cpu.xplane.pb",
        "nsys/export.sqlite",
        "nccl/all_reduce_2hosts.txt",
        "nvbandwidth/v0.5.txt",
        "rocprof/counter_collection.csv",
        "trainers/megatron_core.log",
        "mllog/bert.log",
        "kineto/torch_2.13_shapes.json.gz",
        "ncu/rooflinechart_roofs.csv",
        "hpl/one_process.out",
    )
    done = run(site, "--job", "kinds", "--host", "nodea", *(OURS / name for name in names))
    assert done.returncode == 0, done.stderr
    sent = [line for line in done.stderr.splitlines() if f"at {site.address} as job kinds" in line]
    assert len(sent) == len(names), done.stderr
    assert "refused" not in done.stderr


@pytest.mark.slow
def test_recording_falls_on_the_steps_of_the_job_it_is_given_to(site: Site) -> None:
    """A trace with two profiled steps of half a second; what perf counted meanwhile is shifted onto them."""
    site.server()
    zero = time.mktime((2026, 11, 21, 9, 0, 0, 0, 0, -1))
    assert run(site, "--job", "9", written(site, "t.json", json.dumps(TRACE))).returncode == 0
    done = run(site, "--job", "9", "--step-time-offset", 1e9 - zero, written(site, "a", PERF))
    assert done.returncode == 0, done.stderr
    found = values(site.report("9"), "worker:0")
    assert found["steps"] == 2
    # 8 MFLOP in the first second, which holds both steps.
    assert found["flops_per_step.measured"] == pytest.approx(4e6, rel=0.02)


@pytest.mark.slow
def test_without_a_server_the_exit_code_is_4(site: Site) -> None:
    done = run(site, "--job", "7", written(site, "b", NCU))
    assert done.returncode == 4
    assert "roofline-server" in done.stderr
    assert "Traceback" not in done.stderr


BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "binary": (b"\x00\x01\x02" * 99, "is binary"),
    "elf": (b"\x7fELF\x02\x01" + bytes(99), "a program"),
    "report": (b"NVR\x00" + bytes(99), "ncu"),
    "prose": (b"Dear reader,\nthis is a letter.\n", "no known format; it begins with 'Dear reader,'"),
    "gzip": (gzip.compress(os.urandom(5000))[:700], "binary"),
    "torn_gzip": (b"\x1f\x8b\x08\x00", "gzip"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_what_is_no_recording_gets_one_clear_line_and_stops_no_other(site: Site, name: str) -> None:
    content, says = BAD[name]
    bad, good = written(site, name, content), written(site, "good", NCU)
    done = run(site, "--dry-run", "--format", "json", bad, good)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert str(bad) in line
    assert says in line
    assert json.loads(done.stdout)["kernels"]


@pytest.mark.slow
def test_missing_file_and_directory(site: Site) -> None:
    assert "no such file" in run(site, "--dry-run", site.folder / "nothing").stderr
    assert "is a directory" in run(site, "--dry-run", site.folder).stderr


@pytest.mark.slow
def test_torn_file_gives_what_it_has_and_says_how_far(site: Site) -> None:
    text = "".join(f"{n}.000000000;{n};;cycles;1000;100.00;;\n" for n in range(1, 60000))
    torn = gzip.compress(text.encode())[:-5000]
    shown = dry(site, written(site, "torn.gz", torn))
    assert 1000 < len(shown["counters"]) < 59999
    assert any("ends early" in w and w.startswith("line ") for w in shown["warnings"])


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_encodings_of_other_systems(site: Site, encoding: str) -> None:
    shown = dry(site, written(site, "b", NCU.replace("\n", "\r\n").encode(encoding)))
    assert shown["kernels"][0]["flops"] == 6e6


def test_pipe_by_name_is_read_once(site: Site) -> None:
    path = written(site, "b", NCU)
    shell = f"{COMMANDS / 'roofline-agent'} import --dry-run --format json <(cat {path})"
    done = subprocess.run(["bash", "-c", shell], env=site.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"][0]["flops"] == 6e6


def test_names_in_a_file_cannot_steer_the_terminal(site: Site) -> None:
    path = written(site, "b", NCU.replace('"gemm"', '"ge\x1b]0;owned\x07mm\u202e"'))
    done = run(site, "--dry-run", path)
    assert "ge?]0;owned?mm?" in done.stdout
    assert all(c.isprintable() for c in done.stdout.replace("\n", ""))


def test_output_that_cannot_be_written_is_one_line(site: Site) -> None:
    path = written(site, "b", NCU)
    with open("/dev/full", "w") as full:
        command = [COMMANDS / "roofline-agent", "import", "--dry-run", path]
        done = subprocess.run(
            command, env=site.environ, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "roofline-agent: the output cannot be written (No space left on device)"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "option",
    [
        ("--rank", "99999999999999999999"),
        ("--step-time-offset", "nan"),
        ("--step-time-offset", "1e30"),
        ("--host", "a\x1b"),
        ("--format", "xml"),
    ],
)
def test_options_that_cannot_be_are_usage_errors(site: Site, option: tuple[str, str]) -> None:
    done = run(site, *option, written(site, "b", NCU))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_zeros_at_the_end_of_a_torn_file_do_not_hide_it(site: Site) -> None:
    assert dry(site, written(site, "b", NCU.encode() + bytes(64)))["kernels"]


@pytest.mark.slow
def test_recording_stands_at_its_own_time_whatever_becomes_of_the_server(site: Site) -> None:
    site.server()
    assert run(site, "--job", "9", written(site, "t.json", json.dumps(TRACE))).returncode == 0
    report = site.report("9")
    assert report["begin_ns"] == 10**18
    assert report["end_ns"] == 10**18 + 10**9
    assert report["alignment"] == []


def test_standard_input_is_a_file_too(site: Site) -> None:
    done = run(site, "--dry-run", "--format", "json", "-", input=PERF)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tool"] == "perf stat"


@pytest.mark.slow
def test_large_file_streams(site: Site) -> None:
    """40 MB; the command takes some 150 MB with Arrow, whatever the size."""
    path = site.folder / "large"
    block = "".join(f"{n % 1000}.500000000;{n};;cycles;1000;100.00;;\n" for n in range(100_000))
    with open(path, "w") as file:
        while file.tell() < 40 << 20:
            file.write(block)
    # Measured by a small process: a child begins with the size of who started it.
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2); "
    measure += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [COMMANDS / "roofline-agent", "import", "--dry-run", path]
    done = subprocess.run(
        [sys.executable, "-c", measure, *command],
        env=site.environ,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 180 << 10  # KiB


def test_spans_of_opentelemetry_are_steps_of_each_rank(site: Site) -> None:
    site.server()
    assert run(site, "--job", "spans", "--role", "ddp", OURS / "otlp" / "two_ranks.jsonl").returncode == 0
    report = site.report("spans")
    assert [(one["rank"], one["host"]) for one in report["ranks"]] == [("ddp:0", "node0"), ("ddp:1", "node1")]
    medians = [values(report, rank)["step_time_median"] for rank in ("ddp:0", "ddp:1")]
    assert medians == pytest.approx([0.04, 0.05]) and values(report, "ddp:1")["steps"] == 3
