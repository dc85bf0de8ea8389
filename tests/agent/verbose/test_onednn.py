"""The oneDNN parser against recorded logs with a known FLOP count, and against each version's spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import KernelShape
from roofline_agent.verbose import mkl, onednn

DATA = Path(__file__).parents[2] / "data" / "onednn"
PROBE_FLOPS_PER_STEP = 1_969_471_488  # counted by hand from the network's shapes

V3_CONVOLUTION = (
    "primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
    "src:bf16:a:blocked:acdb::f0 wei:bf16:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 "
    "dst:bf16:a:blocked:acdb::f0,attr-scratchpad:user,alg:convolution_direct,"
    "mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1,1.5"
)


def shape_of(line: str) -> KernelShape:
    call = onednn.parse(line)
    assert call is not None
    return call.shape


def flops_by_section(path: Path) -> dict[str, int]:
    sections: dict[str, int] = {}
    name = ""
    for line in path.read_text().splitlines():
        if line.startswith("---"):
            name = line
        for library in (onednn, mkl):
            call = library.parse(line)
            if call is not None:
                sections[name] = sections.get(name, 0) + (call.shape.flops or 0)
    return sections


@pytest.mark.parametrize("log", ["onednn_tf2121", "onednn_tf2151", "onednn_tf221", "onednn_mkl_torch"])
def test_recorded_steps_have_the_analytic_count(log: str) -> None:
    sections = flops_by_section(DATA / f"{log}.log")
    assert sections["--- step 0"] == sections["--- step 1"] == PROBE_FLOPS_PER_STEP


def test_convolutions_done_as_matrix_products_have_the_same_count() -> None:
    assert flops_by_section(DATA / "onednn_opts0_tf2121.log")["--- step 0"] == PROBE_FLOPS_PER_STEP


@pytest.mark.parametrize("log", sorted(DATA.glob("onednn_*.log")), ids=lambda path: path.stem)
def test_every_recorded_call_is_understood(log: Path) -> None:
    lines = log.read_text().splitlines()
    assert not [line for line in lines if onednn.looks_executed(line) and onednn.parse(line) is None]


def test_all_of_a_line() -> None:
    call = onednn.parse("onednn_verbose,v1,1795202852749.470947," + V3_CONVOLUTION)
    assert call is not None
    assert call.start_ns == 1_795_202_852_749_470_947
    assert call.duration_ns == 1_500_000
    assert call.shape == KernelShape(
        library="onednn",
        operation="convolution",
        variant="forward_training",
        precision="bf16",
        implementation="jit:avx512_core",
        problem="mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1",
        flops=2 * 2 * 3 * 4 * 5 * 5 * 3 * 3,
        bytes=2 * (2 * 3 * 25) + 2 * (4 * 3 * 9) + 4 * 4 + 2 * (2 * 4 * 25),
        note="",
    )


def test_engine_says_where_it_ran() -> None:
    for engine, flags in (("cpu", (None, None)), ("gpu:1", (True, False)), ("cpu2gpu", (True, False))):
        call = onednn.parse("onednn_verbose,v1," + V3_CONVOLUTION.replace("exec,cpu", f"exec,{engine}"))
        assert call is not None
        assert (call.shape.on_gpu, call.shape.counted) == flags


@pytest.mark.parametrize(
    "line",
    [
        # 0.x: no engine, no types; groups behind the batch
        "mkldnn_verbose,exec,convolution,jit:avx2,backward_data,fsrc:nChw8c fwei:gOihw8i8o fbia:undef "
        "fdst:nChw8c,alg:convolution_direct,mb2_g2ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.25",
        # 1.0: engine, no attributes
        "mkldnn_verbose,exec,cpu,convolution,jit:avx2,backward_data,src_f32::blocked:aBcd8b:f0 "
        "wei_f32::blocked:aBcde8b8c:f0 dst_f32::blocked:aBcd8b:f0,alg:convolution_direct,"
        "mb2_g2ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.25",
        # 1.2 to 2.x
        "dnnl_verbose,exec,cpu,convolution,jit:avx2,backward_data,src_f32::blocked:aBcd8b:f0 "
        "wei_f32::blocked:aBcde8b8c:f0 bia_undef::undef::f0 dst_f32::blocked:aBcd8b:f0,,"
        "alg:convolution_direct,mb2_g2ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.25",
        # 2.x with a timestamp, groups first
        "onednn_verbose,1795202861667.649902,exec,cpu,convolution,jit:avx2,backward_data,"
        "src_f32::blocked:acdb:f0 wei_f32::blocked:aBcde:f0 bia_undef::undef::f0 dst_f32::blocked:acdb:f0,,"
        "alg:convolution_direct,g2mb2_ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.25",
        # 3.3, 3.7, one of several GPUs, and the end of a line as a terminal sends it
        "onednn_verbose,primitive,exec,gpu:1,convolution,ocl:ref:any,backward_data,"
        "src_f32::blocked:acdb::f0 wei_f32:a:blocked:aBcde::f0 bia_undef::undef::: dst_f32::blocked:acdb::f0,"
        "attr-scratchpad:user ,alg:convolution_direct,"
        "g2mb2_ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,0.25\r\n",
        "  Epoch 3:  50%|##  |\ronednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,backward_data,"
        "src:f32::blocked:acdb::f0 wei:f32:a:blocked:aBcde::f0 bia:undef::undef::: dst:f32::blocked:acdb::f0,"
        ",alg:convolution_direct,g2mb2_ic4oc8_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0,2.5e-01",
    ],
)
def test_every_version_tells_the_same_convolution(line: str) -> None:
    call = onednn.parse(line)
    assert call is not None
    assert call.duration_ns == 250_000
    assert (call.shape.operation, call.shape.variant) == ("convolution", "backward_data")
    assert call.shape.flops == 2 * 2 * (4 * 8 // 2) * 4 * 4 * 3 * 3


def test_types_that_are_not_printed_leave_precision_and_bytes_open() -> None:
    shape = shape_of(
        "mkldnn_verbose,exec,convolution,jit_wino_4x3:avx512_core,forward_training,fsrc:nChw16c "
        "fwei:OIhw16i16o fbia:undef fdst:nChw16c,alg:convolution_winograd,"
        "mb1_ic16oc16_ih4oh4kh3sh1dh0ph1_iw4ow4kw3sw1dw0pw1,1"
    )
    assert (shape.precision, shape.bytes) == ("", None)
    assert shape.note == "direct-equivalent count; the algorithm is Winograd"


@pytest.mark.parametrize(
    ("stamp", "start_ns"),
    [
        ("1795202861667.649902,", 1_795_202_861_667_649_902),
        ("1795202861667,", 1_795_202_861_667_000_000),
        ("1.7952e+12,", None),  # 2.7 prints its gemm lines so
        ("81234.5,", None),  # since boot, not since 1970
        ("", None),
    ],
)
def test_only_a_full_epoch_timestamp_is_a_start(stamp: str, start_ns: int | None) -> None:
    call = onednn.parse(
        f"onednn_verbose,{stamp}exec,cpu,gemm_api,,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
        "dst_f32::blocked:ab:f0,,16x256:256x10,0.0119629"
    )
    assert call is not None
    assert (call.start_ns, call.duration_ns) == (start_ns, 11963)
    assert (call.shape.flops, call.shape.bytes) == (2 * 16 * 256 * 10, 4 * (16 * 256 + 256 * 10 + 160))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loss 0.3",
        "onednn_verbose,",
        "onednn_verbose,info,oneDNN v2.7.3 (commit N/A)",
        "onednn_verbose,v1,info,cpu,runtime:threadpool,nthr:1",
        "onednn_verbose,v1,primitive,info,template:timestamp,operation,engine,primitive,implementation,"
        "prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time",
        "dnnl_verbose,create:cache_miss,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 "
        "dst_f32::blocked:ba:f0,,,2x2,0.2",
        "onednn_verbose,v1,primitive,create_nested:cache_miss,cpu,matmul,brg:avx2,undef,"
        "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,2x1:1x1,0.5",
        "onednn_verbose,v1,primitive,exec:check,primitive,unused execution argument (80),src/a.cpp:77",
        "onednn_verbose,v1,primitive,exec:external,CpuGemm,0.12",
        "onednn_verbose,v1,graph,exec,cpu,100002,convolution_post_ops,conv,,in0_f32,strict,larger,dnnl,0.3",
        "onednn_verbose,error,convolution,0.5",
    ],
)
def test_other_lines_are_no_calls_and_do_not_claim_to_be(line: str) -> None:
    assert onednn.parse(line) is None
    assert not onednn.looks_executed(line)


@pytest.mark.parametrize(
    "line",
    [
        "dnnl_verbose,exec,cpu,convolution,jit:avx512_common,forward_training,src_f32::blocked:aBcd wei_f32",
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:a::f0,,,64",
        "onednn_verbose,exec,cpu,matmul,x,undef,src,,,1x1:1x1,nan",
        "onednn_verbose,exec,cpu,matmul,x,undef,src,,,1x1:1x1,1e300",
        "onednn_verbose,exec,1,2,3",
        # Cut off behind a size, which must not be taken for the time.
        "mkldnn_verbose,exec,reorder,simple:any,undef,in:f32_nchw out:f32_nchw,num:1,64",
        "dnnl_verbose,exec,cpu,eltwise,jit:avx2,forward_training,data_f32::blocked:a:f0,,alg:eltwise_relu,64",
        "onednn_verbose,v1,ukernel,exec,cpu,brgemm,,undef,src:f32::: wei:f32::: dst:f32:::,,bs:1 beta:0,16",
    ],
)
def test_cut_off_calls_are_not_guessed_but_claimed(line: str) -> None:
    assert onednn.parse(line) is None
    assert onednn.looks_executed(line)


def test_the_first_verbose_lines_name_no_implementation() -> None:
    shape = shape_of(
        "mkldnn_verbose,exec,convolution,forward_inference,fsrc:nChw8c fwei:gOIhw8i8o fbia:x fdst:nChw8c,"
        "alg:convolution_direct,mb2_g1ic16oc16_ih7oh7kh5sh1dh0ph2_iw7ow7kw5sw1dw0pw2,0.0170898"
    )
    assert (shape.variant, shape.implementation) == ("forward_inference", "")
    assert shape.flops == 2 * 2 * 16 * 16 * 49 * 25


TEMPLATE = (
    "onednn_verbose,v1,primitive,info,template:timestamp,operation,engine,primitive,implementation,prop_kind,"
    "memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
)


def test_all_known_headers_announce_the_same_order() -> None:
    assert onednn.field_order(TEMPLATE) == ()
    assert onednn.field_order(TEMPLATE.replace("v1,primitive,info,", "info,prim_")) == ()
    assert onednn.field_order(TEMPLATE.replace("primitive,info", "graph,info")) is None
    assert onednn.field_order("onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:1") is None


def test_fields_in_an_order_of_their_own_are_read_where_they_are() -> None:
    order = onednn.field_order(TEMPLATE.replace("engine,primitive,", "primitive,engine,"))
    assert order is not None
    moved = "onednn_verbose,v1," + V3_CONVOLUTION.replace("cpu,convolution", "convolution,cpu", 1)
    assert onednn.parse(moved, order) == onednn.parse("onednn_verbose,v1," + V3_CONVOLUTION)


@pytest.mark.parametrize(
    "change", [(",exec_time", ",exec_time,cycles"), ("auxiliary", "aux"), ("engine,", "")]
)
def test_unknown_fields_are_refused(change: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="not known"):
        onednn.field_order(TEMPLATE.replace(*change))


def test_of_two_lines_that_ran_together_the_whole_one_counts() -> None:
    torn = "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:av"
    assert onednn.parse(torn + "onednn_verbose,v1," + V3_CONVOLUTION) == onednn.parse(
        "onednn_verbose,v1," + V3_CONVOLUTION
    )


def test_a_garbled_size_is_not_a_count_that_cannot_travel() -> None:
    huge = V3_CONVOLUTION.replace("mb2_ic3oc4", "mb999999999999_ic999999999999oc999999999999")
    shape = shape_of("onednn_verbose,v1," + huge)
    assert (shape.flops, shape.bytes) == (None, None)


def test_reduced_precision_mode_is_noted() -> None:
    line = V3_CONVOLUTION.replace("attr-scratchpad:user", "attr-scratchpad:user attr-fpmath:bf16")
    assert shape_of("onednn_verbose,v1," + line).note == "f32 may be computed as bf16 (fpmath mode)"
    widened = line.replace("fpmath:bf16", "fpmath:f16:true")
    assert shape_of("onednn_verbose,v1," + widened).note == "integers may be computed as f16 (fpmath mode)"


@given(
    st.text(max_size=120), st.sampled_from(["", "onednn_verbose,", "onednn_verbose,v1,primitive,exec,cpu,"])
)
def test_a_call_is_read_whatever_ran_into_its_line(text: str, torn: str) -> None:
    line = "onednn_verbose,v1," + V3_CONVOLUTION
    assert onednn.parse(torn + text + line) == onednn.parse(line) is not None
    # Alone it is a call only where all of its fields are there.
    assert onednn.parse(torn + text) is None or text.count(",") >= 5
    assert onednn.looks_executed(torn + text) == torn.endswith("exec,cpu,")


@given(
    st.sampled_from(["convolution", "deconvolution", "inner_product", "matmul", "rnn", "concat", "pooling"]),
    st.sampled_from(["undef", "forward_training", "backward_data", "backward"]),
    st.lists(
        st.sampled_from(["src_f32::blocked:ab:f0", "wei:s4::", "bia_f32::_mask9", "dst:", "x"]), max_size=5
    ),
    st.text("bmnkicowhgxlt_:0123*", min_size=1, max_size=40),
)
def test_no_problem_raises(operation: str, variant: str, tensors: list[str], problem: str) -> None:
    line = (
        f"onednn_verbose,exec,cpu,{operation},i,{variant},{' '.join(tensors)},,alg:vanilla_lstm,{problem},1"
    )
    call = onednn.parse(line)
    is_attribute = re.match("[a-z][a-z_-]*:", problem) is not None
    assert (call is None) == is_attribute
    assert call is None or call.duration_ns == 1_000_000
