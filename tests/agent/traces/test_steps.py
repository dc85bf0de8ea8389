"""What of a trace goes to which step, and how it is handed to the wrapper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from roofline_agent.recorded import batches
from roofline_agent.recorded.traces.tensorflow import WAITING, launches_of, waits_of
from roofline_agent.recorded.traces.xplane_host import read_host
from roofline_agent.records import TimedCall
from roofline_agent.traces import steps as traced
from roofline_agent.traces.handing import load, parse_done, write
from roofline_agent.traces.steps import Unreadable, read

from .torch_trace import BORDERS, LATER, LINEAR, PRODUCT, UNIX_MINUS_NODE, US, event, trace

OF_JAX = Path(__file__).parents[2] / "data" / "recorded" / "xplane" / "jax_0.10_cpu.xplane.pb"
XPLANE = Path(__file__).parents[2] / "data" / "traced" / "tensorflow_2.15_cpu.xplane.pb"


def test_operators_belong_to_the_step_in_which_they_began_with_the_time_that_is_their_own(
    tmp_path: Path,
) -> None:
    outside = event("aten::add", 310, 5)
    found = read(trace(tmp_path, LINEAR, PRODUCT, LATER, outside), BORDERS, UNIX_MINUS_NODE)
    assert not found.on_gpu
    first, second = found.steps
    calls = {call.shape.operation: call for call in first.calls}
    assert (calls["aten::linear"].duration_ns, calls["aten::addmm"].duration_ns) == (20 * US, 30 * US)
    assert calls["aten::addmm"].start_ns == UNIX_MINUS_NODE + 110 * US
    assert calls["aten::addmm"].shape.flops == 2 * 4 * 16 * 8
    assert calls["aten::addmm"].shape.problem == "[8] [4, 16] [16, 8]"
    assert calls["aten::linear"].shape.flops is None
    assert [call.shape.operation for call in second.calls] == ["aten::relu"]


def test_gpu_kernels_take_the_place_of_operators_and_collectives_are_spans(tmp_path: Path) -> None:
    kernel = event("sgemm_128x128", 120, 40, "kernel", **{"External id": 5})
    reduce = event("ncclDevKernel_AllReduce_Sum_f32", 220, 60, "kernel")
    product = {**PRODUCT, "args": {**PRODUCT["args"], "External id": 5}}
    found = read(trace(tmp_path, LINEAR, product, kernel, reduce), BORDERS, UNIX_MINUS_NODE)
    assert found.on_gpu
    first, second = found.steps
    assert [(call.shape.operation, call.shape.library) for call in first.calls] == [("sgemm_128x128", "cuda")]
    assert first.calls[0].shape.flops == 2 * 4 * 16 * 8, "of the operator that launched it"
    assert second.calls == []
    assert second.collectives == [("engine.allreduce", 220 * US, 280 * US, None, 1)]


def test_step_with_too_many_calls_is_left_out_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced, "MOST_CALLS", 2)
    found = read(trace(tmp_path, LINEAR, PRODUCT, LATER), BORDERS, UNIX_MINUS_NODE)
    assert [step.number for step in found.steps] == [7]
    assert found.omitted == [8]


def test_trace_without_an_operator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no operator and no kernel"):
        read(trace(tmp_path, event("something", 1, 1, "other")), BORDERS, UNIX_MINUS_NODE)


def test_wrapper_loads_what_the_reading_process_wrote(tmp_path: Path) -> None:
    found = read(trace(tmp_path, LINEAR, PRODUCT, LATER), BORDERS, UNIX_MINUS_NODE)
    write(found, tmp_path / "read")
    again = load(tmp_path / "read")
    assert again == found
    assert isinstance(again.steps[0].calls[0], TimedCall)


def test_what_the_hooks_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "1-1.done"
    said = {"trace": "1-1.json", "framework": "torch", "steps": [[7, 1, 2]], "stop_ns": 3}
    path.write_text(json.dumps({**said, "unix_minus_node_ns": 4}))
    done = parse_done(path)
    assert (done.trace, done.steps, done.stop_ns) == (tmp_path / "1-1.json", [(7, 1, 2)], 3)


def test_operations_of_tensorflow_on_the_cpu() -> None:
    """Three calls of a network of four layers, of which the trace has 87 operations each."""
    found = read_host(XPLANE, "roofline_anchor", 100_000)
    assert len(found.operations) == 3 * 87
    products = [one for one in found.operations if "MatMul" in one.kind]
    assert len(products) == 3 * 11
    assert "gradient_tape/sequential/dense_2/MatMul/MatMul" in {one.name for one in products}
    assert all(one.time_s >= 0 for one in found.operations)
    assert found.anchors == [], "this one was recorded by hand"


PS_WORKER = XPLANE.with_name("tensorflow_2.15_ps_worker.xplane.pb")


def test_worker_of_parameter_servers_computes_sends_and_receives() -> None:
    """0.4 s of a worker of examples/tensorflow_ps, recorded by hand: it ends a step and begins two."""
    found = read_host(PS_WORKER, "roofline_anchor", 100_000)
    launches = list(launches_of(found.operations))
    flops = {launch.layer: launch.flops for launch in launches if launch.name == "_MklNativeFusedConv2D"}
    batch, pixels = 32, {"conv0": 32 * 32, "conv1": 16 * 16, "conv2": 8 * 8}
    weights = {"conv0": 3 * 32 * 9, "conv1": 32 * 128 * 9, "conv2": 128 * 160 * 9}
    assert flops == {layer: 2 * batch * pixels[layer] * weights[layer] for layer in weights}
    layers = {launch.layer for launch in launches}
    assert layers >= {"conv0", "conv1", "conv2", "dense0", "dense1", "(SendTensor)", ""}
    assert not any("ReadVariableOp" in layer or "CrossDevice" in layer for layer in layers)
    assert "EagerService" not in {launch.problem for launch in launches}, "a call of the server, no operation"

    waits = list(waits_of(found.waits))
    assert {launch.variant for launch in waits} == {WAITING}
    received = [launch for launch in waits if launch.layer == "(RecvTensor)"]
    assert len(received) == 2 * 13, "each variable of both steps, those of convolutions also for the gradient"
    assert all(launch.problem.endswith(" from ps:0") and launch.time_s > 0 for launch in received)
    assert {launch.layer for launch in waits} == {"(RecvTensor)", "(input)", "(updates on servers)"}


def test_wait_is_handed_on_as_such(tmp_path: Path) -> None:
    found = read_host(PS_WORKER, "roofline_anchor", 100_000)
    shapes = {batches.shape_of(launch) for launch in waits_of(found.waits)}
    assert {shape.variant for shape in shapes} == {WAITING}
    assert all(shape.flops is None for shape in shapes)


def test_operators_and_kernels_have_the_layers_of_the_modules_that_made_them(tmp_path: Path) -> None:
    layer = event("roofline.layer Net/fc", 105, 40, "user_annotation")
    found = read(trace(tmp_path, LINEAR, PRODUCT, LATER, layer), BORDERS, UNIX_MINUS_NODE)
    layers = {call.shape.operation: call.shape.layer for step in found.steps for call in step.calls}
    assert layers == {"aten::linear": "", "aten::addmm": "Net/fc", "aten::relu": ""}

    launch = event("cudaLaunchKernel", 120, 2, "cuda_runtime", correlation=7)
    kernel = event("sgemm_128x128", 150, 40, "kernel", correlation=7)
    found = read(trace(tmp_path, LINEAR, layer, launch, kernel), BORDERS, UNIX_MINUS_NODE)
    assert [call.shape.layer for call in found.steps[0].calls] == ["Net/fc"]


def test_operations_of_xla_on_the_cpu() -> None:
    """Three steps of a product of 256 x 256, as XLA calls it."""
    found = read_host(OF_JAX, "roofline_anchor", 100_000)
    assert found.operations and all(one.by_xla for one in found.operations)
    products = [one for one in found.operations if one.kind == "ynn_fusion"]
    assert len(products) == 3
    assert {one.name.partition("/")[2] for one in products} == {"ynn_fusion"}
    assert all(one.time_s > 0 for one in products)
