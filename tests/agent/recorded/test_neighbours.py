"""Output that no reader takes is answered with what to import in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.recorded import reader
from roofline_agent.recorded.errors import NotRecognised, NotText
from roofline_agent.recorded.neighbours import advice_for

from tests.recordings import ours

from .traces import read, warned

PERF = "python 12345 [003] 123456.789012:     250000 cycles:P:      7f1234567890 gemm+0x10 (libblas.so)\n"
NSYS = """Processing [a.sqlite] with [reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)      Name
 --------  ---------------  ---------  --------  ------------
    100.0             4000          2    2000.0  gemm
"""
TRACE = """{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"X","pid":1,"tid":13,"ts":1000.5,"dur":12.5,"name":"gemm"},{}]}
"""
SOURCE = '"Kernel Name","gemm"\n"#","Address","Source","# Samples"\n"1","140000","      MOV R1, R2 ","12"\n'
ADVICE = {
    "perf_script": (PERF, "count the events with `perf stat`"),
    "perf_script_without_cpus": (PERF.replace("[003] ", "").replace("250000 ", ""), "`perf stat`"),
    "dmon": ("# gpu    pwr  gtemp  mtemp     sm\n# Idx      W      C      C      %\n", "--query-gpu="),
    "dmon_with_times": ("#Time        gpu    pwr  gtemp\n#HH:MM:SS    Idx      W      C\n", "--query-gpu="),
    "pmon": ("# gpu         pid   type     sm\n# Idx           #    C/G      %\n", "--query-gpu="),
    "smi": ("Sat Nov 28 2026\n+----+\n| NVIDIA-SMI 535.1 Driver Version: 535.1 |\n", "--query-gpu="),
    "smi_of_processes": ("pid, process_name, used_gpu_memory [MiB]\n1, python, 1024 MiB\n", "--query-gpu="),
    "smi_without_names": ("2024/05/01 00:00:30.250, 0, 45 %, 1024 MiB, 119.20 W\n", "leave out `noheader`"),
    "smi_without_names_or_times": ("0, 45 %, 1024 MiB, 119.20 W\n", "leave out `noheader`"),
    "nsys_for_people": (NSYS, "add `--format csv`"),
    "source_of_ncu": (SOURCE, "`--page raw`"),
    "trace_of_tensorflow": (TRACE, "import the .xplane.pb beside it"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_output_of_a_known_tool_is_answered_with_what_can_be_read(name: str, tmp_path: Path) -> None:
    content, advice = ADVICE[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(NotRecognised) as raised:
        reader.read(str(path))
    assert str(raised.value).startswith(f"{path}: ") and advice in str(raised.value)


@pytest.mark.parametrize("text", ["", "Dear reader,\n", "step, loss\n1, 2\n", "0, 45, 7\n", "Time: 5 s\n"])
def test_nothing_is_said_of_other_text(text: str) -> None:
    assert advice_for(text) == ""


def test_source_page_of_ncu_behind_its_messages_is_named(tmp_path: Path) -> None:
    path = tmp_path / "source.csv"
    path.write_text("==PROF== Connected to process 1 (/a)\n" + SOURCE)
    (warning,) = read(str(path)).warnings
    assert "kernels are on `--page raw`" in warning.text


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("perf.data", b"PERFILE2" + bytes(99), "what `perf stat report` prints"),
        ("a.nsys-rep", b"\x01\x02" + bytes(99), "`nsys export --type sqlite FILE`"),
        ("a.pftrace", b"\x0a\x01" + bytes(99), "`--output-format csv`"),
        ("a", b"\x01\x02" + bytes(99), "is binary"),
    ],
)
def test_binary_of_a_known_tool_is_answered_with_what_can_be_read(
    name: str, content: bytes, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NotText, match=advice):
        reader.read(str(path))


def test_names_alone_refuse_no_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.nsys-rep"
    path.write_bytes(
        next(one for one in ours() if one.parent.name == "nsys" and one.suffix == ".csv").read_bytes()
    )
    assert not warned(read(str(path)), "nsys export")
