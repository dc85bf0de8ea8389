"""What is counted, by what the profiler offers."""

from __future__ import annotations

from roofline_agent.ncu.metrics import BYTES, CORES, TENSOR_PIPE, TIME, choices, offered

from .fake_ncu import QUERY

PATH = "sm__ops_path_tensor_src_bf16_dst_fp32"
PACKED_OFFERED = (("fadd2", "smsp__"), ("fadd2", "sm__"), ("ffma2", "sm__"))


def test_operations_of_tensor_cores_are_counted_once_where_they_can_be() -> None:
    names = offered(QUERY)
    assert {PATH, f"{PATH}_sparsity_off", "dram__bytes"} <= names
    best = choices(names)[0]
    assert f"{PATH}.sum" in best
    assert TENSOR_PIPE not in best and f"{PATH}_sparsity_off.sum" not in best, "the same operations once more"
    assert set(BYTES) < set(best) and best[0] == TIME
    assert sum(name in best for name in CORES) == 3, "only what is offered"


def test_older_gpus_count_tensor_instructions() -> None:
    names = {name for name in offered(QUERY) if "ops_path" not in name}
    assert TENSOR_PIPE in choices(names)[0]
    assert choices(names)[-1][0] == TIME


def test_profiler_without_a_list_is_tried_with_all() -> None:
    lists = choices(())
    assert [TENSOR_PIPE in one for one in lists] == [False, True, False]
    assert all({TIME, *BYTES, *CORES} <= set(one) for one in lists)


def test_packed_fp32_is_counted_where_it_is_offered_and_once() -> None:
    name = "sass_thread_inst_executed_op_{}_pred_on"
    lines = [f"{part}{name.format(kind)} Counter inst  # of it" for kind, part in PACKED_OFFERED]
    best = choices(offered("\n".join([QUERY, *lines])))[0]
    asked = [f"smsp__{name.format('fadd2')}.sum", f"sm__{name.format('ffma2')}.sum"]
    assert [one for one in best if "2_pred_on" in one] == asked
    assert not any("2_pred_on" in one for one in choices(offered(QUERY))[0])
