"""Recorded verbose output: known rates, recorded runs with their analytic count, and hostile text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded import verbose_log
from roofline_agent.recorded.collector import Collector, FileWarning
from roofline_agent.recorded.formats import recognise
from roofline_agent.recorded.reader import read
from roofline_agent.recorded.recording import Kernel, Launch
from roofline_agent.recorded.text import Text

from .reading import read_text, said

DATA = Path(__file__).parents[2] / "data" / "onednn"
PROBE_FLOPS = 1_969_471_488  # of one step, counted by hand from the network's shapes

CONVOLUTION = (
    "onednn_verbose,v1,{}primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
    "src:bf16::blocked:acdb::f0 wei:bf16:a:blocked:Acdb16a::f0 bia:undef::undef::: "
    "dst:bf16:a:blocked:acdb::f0,,alg:convolution_direct,mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1,{}"
)
NAME = "convolution forward_training mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1 bf16"
FLOPS = 2 * 2 * 3 * 4 * 25 * 9
BYTES = 2 * (2 * 3 * 25 + 4 * 3 * 9 + 2 * 4 * 25)
REORDER = (
    "dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,2x3,0.5"
)
GEMM = "MKL_VERBOSE SGEMM(N,N,8,7,9,0x1,0x2,8,0x3,9,0x4,0x5,8) 64.00us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"
CREATE = (
    "onednn_verbose,v1,primitive,create:cache_miss,cpu,reorder,jit:uni,undef,"
    "src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0,,,2x2,0.25"
)


class Found(NamedTuple):
    """A collector's content."""

    kernels: list[Kernel]
    launches: list[Launch]
    facts: dict[str, float | int | str]
    warnings: list[FileWarning]
    tool: str
    version: str
    started_ns: int | None
    duration_s: float | None
    is_empty: bool


def content(found: Collector) -> Found:
    try:
        return Found(
            found.kernels,
            list(found.launches or ()),
            found.facts,
            found.warnings,
            found.tool,
            found.version,
            found.started_ns,
            found.duration_s,
            found.is_empty,
        )
    finally:
        found.close()


def read_file(path: str | Path) -> Found:
    return content(read(str(path), keep_launches=True))


def collected(*lines: str, end: str = "\n") -> Found:
    text = Text("made up", io.BytesIO(("\n".join(lines) + end).encode("utf-8", "replace")))
    found = Collector(keep_launches=True)
    verbose_log.read(text, found)
    return content(found)


def warnings(found: Found) -> list[tuple[str, int]]:
    return [(warning.text.partition(":")[0], warning.line) for warning in found.warnings]


# Recorded files


@pytest.mark.parametrize("log", ["tf2121", "tf2151", "tf221", "mkl_torch"])
def test_recorded_runs_have_the_analytic_count(log: str) -> None:
    found = read_file(DATA / f"onednn_{log}.log")
    total = sum(launch.flops or 0 for launch in found.launches)
    assert total >= 2 * PROBE_FLOPS  # two steps, and what came before and after them
    steps = sections(DATA / f"onednn_{log}.log")
    assert steps["--- step 0"] == steps["--- step 1"] == PROBE_FLOPS


def sections(path: Path) -> dict[str, float]:
    """FLOPs of the pieces of a log, each read as a file of its own."""
    flops = {}
    for piece in path.read_text().split("--- ")[1:]:
        title, _, rest = piece.partition("\n")
        flops["--- " + title] = sum(launch.flops or 0 for launch in collected(rest).launches)
    return flops


@pytest.mark.parametrize("log", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
def test_recorded_logs_are_recognised_and_read_whole(log: Path) -> None:
    with log.open("rb") as stream:
        assert recognise(Text(log.name, stream)).read is verbose_log.read
    found = read_file(log)
    assert found.warnings == []
    assert found.version
    calls = [line for line in log.read_text().splitlines() if ",exec," in line or "us CNR" in line]
    assert sum(kernel.launches for kernel in found.kernels) >= len(calls) > 0


def test_headers_of_both_libraries_are_facts() -> None:
    found = read_file(DATA / "onednn_torch_layers.log")
    assert (found.tool, found.version) == ("onednn", "3.12.0")
    assert (found.facts["cpu_runtime"], found.facts["threads"]) == ("OpenMP", 1)
    assert found.facts["mkl_version"] == "2024.0 Update 2"
    alone = read_file(DATA / "mkl_routines_2023.log")
    assert (alone.tool, alone.version) == ("mkl", alone.facts["mkl_version"])


def test_times_of_a_recorded_run_count_from_its_first_call() -> None:
    found = read_file(DATA / "onednn_tf221.log")
    starts = [launch.start_s for launch in found.launches]
    assert found.started_ns == 1_795_202_852_749_408_936
    assert starts[0] == 0.0
    assert starts[1] == pytest.approx(0.000062011)
    assert found.duration_s is not None
    assert found.duration_s >= max(start for start in starts if start is not None)


# Made-up logs


def test_all_of_a_launch() -> None:
    found = collected("Epoch 1", CONVOLUTION.format("1795202852749.5,", "1.5"), "loss 0.3")
    assert found.launches == [
        Launch(
            name=NAME,
            time_s=0.0015,
            flops=FLOPS,
            bytes={"minimum": BYTES},
            start_s=0.0,
            precision="bf16",
            library="onednn",
            variant="forward_training",
            problem="mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1",
        )
    ]
    assert found.started_ns == 1_795_202_852_749_500_000
    assert found.warnings == []


def test_launches_of_one_shape_are_one_kernel() -> None:
    found = collected(CONVOLUTION.format("", "1.5"), REORDER, CONVOLUTION.format("", "0.5"))
    assert found.kernels == [
        Kernel(NAME, 2, 0.002, 2 * FLOPS, {"minimum": 2 * BYTES}, "bf16"),
        Kernel("reorder 2x3", 1, 0.0005, 0, {"minimum": 48}, "f32"),
    ]
    assert [launch.start_s for launch in found.launches] == [None] * 3
    assert found.started_ns is None


def test_an_unknown_primitive_is_a_launch_without_flops() -> None:
    [kernel] = collected(REORDER.replace("reorder", "invention")).kernels
    assert (kernel.name, kernel.flops, kernel.bytes) == ("invention 2x3", None, {})


def test_routines_of_mkl_are_kernels_whatever_their_addresses() -> None:
    found = collected(GEMM, GEMM.replace("0x1", "0x7f"))
    [kernel] = found.kernels
    assert kernel.name == "SGEMM(N,N,8,7,9,*,*,8,*,9,*,*,8)"
    assert (kernel.launches, kernel.flops, found.tool) == (2, 2 * 2 * 8 * 7 * 9, "mkl")


@pytest.mark.parametrize(
    "prefix", ["    ", "[1,0]<stdout>:", "3: ", "50%|#### |\r", "2026-11-21 INFO ", "\x1b[32m"]
)
def test_a_line_may_begin_with_anything(prefix: str) -> None:
    found = collected(prefix + CONVOLUTION.format("", "1.5"), prefix + GEMM)
    assert len(found.launches) == 2
    assert found.warnings == []


@pytest.mark.parametrize("end", ["`", '"', "'", " "])
def test_quotes_behind_a_line_are_no_part_of_it(end: str) -> None:
    found = collected(REORDER + end)
    assert [launch.time_s for launch in found.launches] == [0.0005]


def test_colours_and_carriage_returns_at_a_lines_end_are_no_part_of_it() -> None:
    assert len(collected(REORDER + "\x1b[0m", REORDER + "\r", REORDER).launches) == 3


def test_lines_of_threads_that_ran_together_are_both_read() -> None:
    found = collected(REORDER + GEMM, "onednn_verbose,v1,primitive,exec,cpu,conv" + REORDER)
    assert [launch.library for launch in found.launches] == ["onednn", "mkl", "onednn"]
    assert warnings(found) == [("the file ends inside this line; it is left out", 2)]


def test_creations_and_dispatches_are_counted_and_no_launches() -> None:
    found = collected(
        CREATE,
        CREATE.replace("cache_miss", "cache_hit"),
        CREATE.replace("create", "create_nested"),
        CREATE.replace("cache_miss", "dispatch").replace("0.25", "skipped,a.cpp:1"),
        CREATE.replace("cache_miss", "start").replace(",0.25", ""),
        "onednn_verbose,v1,primitive,exec:check,primitive,unused execution argument (80),src/a.cpp:77",
        "onednn_verbose,v1,primitive,exec:external,CpuGemm,0.12",
        "onednn_verbose,v1,primitive,error,convolution,bad,a.cpp:1",
        REORDER,
    )
    assert len(found.launches) == 1
    assert found.facts == {
        "creates": 2,
        "create_s": pytest.approx(0.0005),
        "creates_nested": 1,
        "creates_started": 1,
        "dispatches": 1,
        "checks": 1,
        "externals": 1,
        "errors": 1,
    }


def test_a_log_without_executions_says_so() -> None:
    found = collected(CREATE)
    assert found.is_empty
    assert [text for text, _ in warnings(found)] == ["no whole line of an executed primitive"]


def test_graph_partitions_are_counted_and_explained() -> None:
    partition = "onednn_verbose,v1,graph,exec,cpu,100002,conv_post_ops,c,,in0_f32,strict,larger,dnnl,0.3"
    found = collected(partition, REORDER)
    assert found.facts["graph_partitions"] == 1
    assert warnings(found) == [("graph partitions are not counted", 0)]


@pytest.mark.parametrize("torn", [CONVOLUTION.format("", "")[:-30], CONVOLUTION.format("", "nan"), GEMM[:40]])
def test_a_garbled_call_is_named_with_its_line(torn: str) -> None:
    found = collected("hello", torn, REORDER, torn, "goodbye")
    [warning] = found.warnings
    assert (warning.line, warning.times) == (2, 2)
    assert "garbled" in warning.text
    assert found.facts["garbled"] == 2
    assert len(found.launches) == 1


def test_calls_on_a_gpu_that_were_not_timed_have_their_flops_and_no_time() -> None:
    sycl = "MKL_VERBOSE oneapi::mkl::blas::sgemm(0x1,ColumnMajor,NonTranspose,Transpose,8,7,9,1,0x2,8,0x3) "
    found = collected(GEMM, sycl + "0.00s GPU0", sycl + "GPU0", "no call")
    assert [(one.time_s, one.flops, one.on_gpu) for one in found.launches] == [
        (64e-6, 1008.0, None),
        (None, 1008.0, True),
    ]
    assert warnings(found) == [
        ("times on a GPU were not measured", 2),
        ("an executed call's line is garbled or has no time", 3),
    ]
    assert verbose_log.sniff(sycl) == 97


def test_a_problem_without_end_is_shortened_and_its_launches_still_add_up() -> None:
    sources = ":".join(["2x3"] * 1000)
    concat = REORDER.replace("reorder", "concat").replace("2x3", sources)
    [kernel] = collected(concat, concat).kernels
    assert (kernel.launches, kernel.bytes) == (2, {"minimum": 2 * 2 * 4 * 6000})
    assert len(kernel.name) < 500


@pytest.mark.parametrize(
    "hostile",
    [
        REORDER.replace("2x3", "x".join(["9"] * 100_000)),
        "MKL_VERBOSE oneMKL 1" + " for architecture" * 20_000,
        "MKL_VERBOSE SGEMM(" + "(" * 200_000 + ") 1us",
        "MKL_VERBOSE a(" + " a:b" * 50_000,
        "MKL_VERBOSE a" + "::b" * 50_000 + "[" * 50_000,
        "onednn_verbose,exec,cpu," + "a," * 100_000 + "1",
        "onednn_verbose," * 20_000,
        "onednn_verbose,exec," + " " * 200_000 + "1",
        "onednn_verbose,info," + "gpu,engine,1," * 20_000,
    ],
    ids=range(9),
)
def test_a_hostile_line_is_over_soon(hostile: str) -> None:
    assert len(collected(hostile, CONVOLUTION.format("", "1")).launches) >= 1


def test_several_versions_in_one_file_are_all_named() -> None:
    header = "onednn_verbose,info,oneDNN v{} (commit a)"
    found = collected(
        header.format("2.7.3"), REORDER, header.format("3.7.3"), header.format("2.7.3"), REORDER
    )
    assert (found.version, found.facts["versions"]) == ("2.7.3", "2.7.3, 3.7.3")


def test_fields_in_another_order_are_read_as_announced() -> None:
    template = (
        "onednn_verbose,v9,primitive,info,template:operation,primitive,engine,implementation,prop_kind,"
        "memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
    )
    found = collected(template, CONVOLUTION.format("", "1.5").replace("cpu,convolution", "convolution,cpu"))
    assert [launch.name for launch in found.launches] == [NAME]
    refused = collected(template.replace("engine", "engine,queue"), REORDER)
    assert warnings(refused) == [("fields of a oneDNN line that are not known", 1)]


def test_a_recording_that_goes_back_in_time_says_so() -> None:
    found = collected(
        CONVOLUTION.format("1795202852749.5,", "1"), CONVOLUTION.format("1795202752749.5,", "1")
    )
    assert warnings(found) == [("times go back here", 2)]


def test_another_programs_word_is_no_line_of_ours() -> None:
    found = collected(
        "my_verbose,exec,cpu,reorder,a,undef,b,,,2x2,1",
        "a_verbose,b_verbose,c",
        "set MKL_VERBOSE to 1",
        REORDER,
    )
    assert (len(found.launches), found.warnings) == (1, [])


@pytest.mark.parametrize(
    "head", ["", "loss 0.3\n", "see the ONEDNN_VERBOSE docs\n", "onednn_verbose,hello\n"]
)
def test_other_text_is_not_taken_for_a_log(head: str) -> None:
    assert verbose_log.sniff(head) == 0


STEPS = "10\timages/sec: 120.5 +/- 0.1 (jitter = 0.4)\t7.5\n{}\ntotal images/sec: 120.25\n"


def test_a_training_log_with_such_lines_gives_both() -> None:
    content = STEPS.format(REORDER + "\n" + GEMM).encode()
    assert recognise(Text("made up", io.BytesIO(content))).read is verbose_log.read
    found = Collector()
    verbose_log.read(Text("made up", io.BytesIO(content)), found)
    try:
        assert found.throughput is not None
        assert found.throughput.examples_per_s == 120.25
        assert [step.examples_per_s for step in found.steps] == [120.5]
        assert (found.tool, len(found.kernels)) == ("onednn", 2)
    finally:
        found.close()


def test_a_training_log_without_them_is_none_of_ours() -> None:
    assert verbose_log.sniff(STEPS.format("")) == 0
    assert verbose_log.sniff("hello\n" + GEMM) > 0


LAUNCHERS = ["[rank{}]:", "[default{}]:", "[1,{}]<stdout>:", "[{}]<stdout>:", "{}: "]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("call", [REORDER, GEMM])
def test_of_several_ranks_the_first_is_followed(launcher: str, call: str) -> None:
    lines = [launcher.format(rank) + call for rank in (3, 0, 3, 1)]
    found = read_text(verbose_log.read, "\n".join(lines))
    assert [kernel.launches for kernel in found.kernels] == [2]
    assert found.facts["rank"] == 3
    assert said(found, "calls of all but rank 3 are left out") and len(found.warnings) == 1
    alone = read_text(verbose_log.read, "\n".join([call, *lines[::2], call]))
    assert [kernel.launches for kernel in alone.kernels] == [4] and not alone.warnings


CALLS = {REORDER: 0.5e-3, GEMM: 64e-6, CONVOLUTION.format("", "1.5"): 1.5e-3}  # and how long they took
OTHERS = [CREATE, "", "onednn_verbose,", ",exec,", "MKL_VERBOSE ", ",", "x"]
LINES = st.one_of(
    st.sampled_from([*CALLS, *OTHERS]),
    st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="_"), max_size=20),
)


@given(st.lists(LINES, max_size=12))
def test_calls_are_counted_whatever_stands_between_them(lines: list[str]) -> None:
    found = collected("log", *lines)
    assert [launch.time_s for launch in found.launches] == [CALLS[one] for one in lines if one in CALLS]
    assert sum(kernel.launches for kernel in found.kernels) == len(found.launches)


@given(
    st.lists(st.sampled_from([REORDER, GEMM, CONVOLUTION.format("", "1.5")]), min_size=1, max_size=5),
    st.data(),
)
def test_wherever_a_log_is_cut_no_whole_line_is_lost_and_none_is_made_up(
    lines: list[str], data: st.DataObject
) -> None:
    whole = "\n".join(lines)
    cut = data.draw(st.integers(1, len(whole)))
    found = collected(whole[:cut], end="")
    complete = whole[:cut].count("\n")
    assert complete <= len(found.launches) <= complete + 1
    assert all(
        launch.flops is None or launch.flops > 0 or "reorder" in launch.name for launch in found.launches
    )
    rest = whole[:cut].rpartition("\n")[2]
    if ",exec," in rest and len(found.launches) == complete:
        assert ("the file ends inside this line; it is left out", complete + 1) in warnings(found)
