"""FLOPs of JAX programs: XLA's count, with loops as often as they run."""

from __future__ import annotations

from types import SimpleNamespace as Made
from typing import Any

import pytest
from roofline_agent.hooks.jax.costs import cost_of, scanned_or_merged

from .doubles import program, variable

PRODUCT = 2 * 4 * 5 * 6


def product(dtype: str = "float32") -> Made:
    """(4, 5) times (5, 6)."""
    return Made(
        primitive=Made(name="dot_general"),
        params={"dimension_numbers": (((1,), (0,)), ((), ()))},
        invars=[variable(4, 5, dtype=dtype), variable(5, 6, dtype=dtype)],
        outvars=[variable(4, 6, dtype=dtype)],
    )


def equation(name: str, invars: Any = (), outvars: Any = (), **params: Any) -> Made:
    return Made(primitive=Made(name=name), params=params, invars=list(invars), outvars=list(outvars))


def test_xla_says_what_a_program_without_loops_costs() -> None:
    said = {"flops": 241.0, "bytes accessed": 1000.0}
    cost = cost_of(said, program(product()), 1)
    assert (cost.flops, cost.bytes, cost.precision) == (241, 1000, "f32")
    assert cost_of([said], program(product("bfloat16")), 2)[:3] == (482, 2000, "bf16")


def test_loop_counts_as_often_as_it_runs() -> None:
    loop = equation("scan", jaxpr=program(product()), length=10)
    cost = cost_of({"flops": 2.0 * PRODUCT, "bytes accessed": 9.0}, program(product(), loop), 1)
    assert cost.flops == 11 * PRODUCT
    assert cost.bytes is None
    assert "loops" in cost.note


def test_loop_that_xla_unrolled_is_not_counted_twice() -> None:
    loop = equation("scan", jaxpr=program(product()), length=10)
    assert cost_of({"flops": 10.0 * PRODUCT}, program(loop), 1).flops == 10 * PRODUCT


H100, V100 = Made(compute_capability="9.0"), Made(compute_capability="7.0")


def test_traced_program_counts_where_xla_leaves_out_what_gpu_libraries_do() -> None:
    said = {"flops": 7.0, "bytes accessed": 1000.0}
    loop = equation("scan", jaxpr=program(product()), length=10)
    cost = cost_of(said, program(product()), 1, [H100])
    assert (cost.flops, cost.bytes) == (PRODUCT, 1000)
    assert "traced program" in cost.note
    assert cost_of(said, program(product(), loop), 1, [H100]).flops == 11 * PRODUCT
    assert cost_of({"flops": 900.0}, program(product()), 1, [H100]).flops == 900, "what XLA knows more of"
    assert cost_of(said, None, 1, [H100]).flops is None
    sharded = cost_of(said, program(product()), 2, [H100, H100], parts=4)
    assert sharded.flops == PRODUCT / 2, "2 of the 4 devices are of this process"


def test_f32_is_multiplied_in_tf32_on_gpus_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    def precision(*devices: Made, dtype: str = "float32") -> str:
        return cost_of({"flops": 7.0}, program(product(dtype)), 1, devices).precision

    assert (precision(H100), precision(V100), precision()) == ("tf32", "f32", "f32")
    assert precision(H100, dtype="bfloat16") == "bf16"
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "float32")
    assert precision(H100) == "f32"


def test_loop_of_unknown_length_makes_flops_unknown() -> None:
    loop = equation("while", body_jaxpr=program(product()))
    cost = cost_of({"flops": 2.0 * PRODUCT}, program(product(), loop), 1)
    assert cost.flops is None
    assert "unknown length" in cost.note


def test_programs_inside_are_counted_and_shards_change_no_ratio() -> None:
    loop = equation("scan", jaxpr=program(product()), length=3)
    inner = equation("shard_map", jaxpr=program(loop), mesh=Made(size=2))
    outer = program(equation("jit", jaxpr=program(inner)))
    assert cost_of({"flops": float(PRODUCT)}, outer, 2).flops == 2 * 3 * PRODUCT


@pytest.mark.parametrize("said", [None, [], {}, {"flops": -1.0}])
def test_what_xla_does_not_know_is_unknown(said: Any) -> None:
    assert cost_of(said, program(product()), 1)[:2] == (None, None)


def test_custom_kernels_are_named() -> None:
    cost = cost_of({"flops": 1.0}, program(product(), equation("pallas_call")), 1)
    assert "without pallas_call" in cost.note


def test_first_dimension_that_a_loop_goes_over_is_not_of_examples() -> None:
    x = variable(8, 4)
    loop = equation("scan", [x], jaxpr=program(), length=8, num_consts=0, num_carry=0)
    assert scanned_or_merged(program(loop, invars=[x]), [0])
    constant = equation("scan", [x], jaxpr=program(), length=8, num_consts=1, num_carry=0)
    assert not scanned_or_merged(program(constant, invars=[x]), [0])


@pytest.mark.parametrize(("shape", "merged"), [((8, 2, 2), False), ((32,), True), ((2, 4, 4), True)])
def test_first_dimension_that_is_merged_is_not_of_examples(shape: tuple[int, ...], merged: bool) -> None:
    x = variable(8, 4)
    y = variable(8, 4, dtype="bfloat16")
    cast = equation("convert_element_type", [x], [y])
    inner = program(cast, equation("reshape", [y], [variable(*shape)]), invars=[x])
    outer = variable(8, 4)
    assert scanned_or_merged(program(equation("jit", [outer], jaxpr=inner), invars=[outer]), [0]) is merged
