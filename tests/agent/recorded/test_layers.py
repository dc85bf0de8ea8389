"""Which layer what a trace holds is of. The PyTorch traces are as small as the rule that they are for."""

from __future__ import annotations

from pathlib import Path

from roofline_agent.recorded.traces.layers import GRADIENTS, OPTIMIZER, TracedLayers
from roofline_agent.recorded.traces.tf_layers import TensorFlowLayers
from roofline_agent.recorded.traces.xplane_host import read_host

XPLANE = Path(__file__).parents[2] / "data" / "traced" / "tensorflow_2.15_cpu.xplane.pb"
MAIN, OTHER = "1 1", "1 2"
NODE = "autograd::engine::evaluate_function: "


def model(since: float = 0.0) -> TracedLayers:
    """A forward of two layers in a model, 0 to 100, of which the second begins at 50."""
    found = TracedLayers()
    for layer, begin, lasts in (("Net", 0, 100), ("Net/a", 10, 30), ("Net/b", 50, 40)):
        found.annotation(MAIN, since + begin, lasts, f"roofline.layer {layer}")
    return found


def test_operator_is_of_the_innermost_module_that_is_called_on_its_thread() -> None:
    layers = model()
    layers.settle()
    moments = {5: "Net", 10: "Net/a", 39.9: "Net/a", 40: "Net", 50: "Net/b", 95: "Net", 100: "", -1: ""}
    assert {at: layers.of(MAIN, at) for at in moments} == moments
    assert layers.of(OTHER, 20) == ""


def test_modules_called_one_after_the_other_without_a_gap() -> None:
    layers = TracedLayers()
    for at, name in enumerate(("a", "b", "c")):
        layers.annotation(MAIN, 10 * at, 10, f"roofline.layer {name}")
    layers.settle()
    assert [layers.of(MAIN, at) for at in (0, 9, 10, 19, 20, 29, 30)] == ["a", "a", "b", "b", "c", "c", ""]


def test_backward_is_of_the_layer_of_its_forward_on_whatever_thread_it_runs() -> None:
    layers = model()
    layers.operator(MAIN, 20, 5, "aten::linear", {"Sequence number": 7, "Fwd thread id": 0})
    layers.operator(MAIN, 21, 3, "aten::addmm", {"Sequence number": 8, "Fwd thread id": 0})
    layers.operator(MAIN, 60, 5, "aten::relu", {"Sequence number": 9, "Fwd thread id": 0})
    given = {"Fwd thread id": 1}
    layers.operator(OTHER, 200, 10, f"{NODE}ReluBackward0", {"Sequence number": 9, **given})
    layers.operator(OTHER, 210, 10, f"{NODE}AddmmBackward0", {"Sequence number": 8, **given})
    layers.operator(OTHER, 220, 10, f"{NODE}Unknown", {"Sequence number": 99, **given})
    layers.operator(OTHER, 230, 10, f"{NODE}torch::autograd::AccumulateGrad", {})
    layers.settle()
    assert [layers.of(OTHER, at) for at in (205, 215, 225, 235)] == ["Net/b", "Net/a", "", GRADIENTS]


def test_events_may_be_earlier_than_the_first_of_the_file() -> None:
    layers = model(since=-1000.0)
    layers.operator(MAIN, -940, 5, "aten::mm", {"Sequence number": 7, "Fwd thread id": 0})
    layers.operator(MAIN, -500, 10, f"{NODE}MmBackward0", {"Sequence number": 7, "Fwd thread id": 1})
    layers.settle()
    assert layers.of(MAIN, -495) == "Net/b"


def test_operator_without_a_node_of_its_own_leaves_its_number_to_the_next() -> None:
    layers = model()
    layers.operator(MAIN, 20, 5, "aten::size", {"Sequence number": 7, "Fwd thread id": 0})
    layers.operator(MAIN, 60, 5, "aten::mm", {"Sequence number": 7, "Fwd thread id": 0})
    # What runs within the backward has numbers too, where gradients of gradients are wanted.
    layers.operator(MAIN, 300, 5, "aten::mm", {"Sequence number": 7, "Fwd thread id": 1})
    layers.operator(MAIN, 300, 10, f"{NODE}MmBackward0", {"Sequence number": 7, "Fwd thread id": 1})
    layers.settle()
    assert layers.of(MAIN, 305) == "Net/b"


def test_forward_that_is_repeated_within_the_backward_is_of_its_own_layer() -> None:
    layers = model()
    layers.operator(MAIN, 60, 5, "aten::mm", {"Sequence number": 7, "Fwd thread id": 0})
    layers.operator(MAIN, 200, 50, f"{NODE}CheckpointBackward", {"Sequence number": 7, "Fwd thread id": 1})
    layers.annotation(MAIN, 210, 20, "roofline.layer Net/a")
    layers.settle()
    assert [layers.of(MAIN, at) for at in (205, 215, 235)] == ["Net/b", "Net/a", "Net/b"]


def test_updates_are_the_optimizers_and_other_ranges_are_nobodys() -> None:
    layers = TracedLayers()
    layers.annotation(MAIN, 0, 10, "Optimizer.step#SGD.step")
    layers.annotation(MAIN, 20, 10, "Optimizer.zero_grad#SGD.zero_grad")
    layers.annotation(MAIN, 40, 10, "a range of the training's own")
    layers.settle()
    assert [layers.of(MAIN, at) for at in (5, 25, 45)] == [OPTIMIZER, OPTIMIZER, ""]


def test_kernel_of_a_gpu_is_of_the_layer_that_launched_it() -> None:
    layers = model()
    layers.launched(31, MAIN, 55)
    layers.settle()
    assert (layers.of_launch(31), layers.of_launch(32)) == ("Net/b", "")


# -- TensorFlow -------------------------------------------------------------------------------------


def test_operations_of_a_real_training_have_the_layers_of_its_model() -> None:
    operations = read_host(XPLANE, "roofline_anchor", 100_000).operations
    layers = TensorFlowLayers((one.name, one.kind) for one in operations)
    dense = ["sequential/dense", "sequential/dense_1", "sequential/dense_2", "sequential/dense_3"]
    assert {layers.of(one.name) for one in operations} == {*dense, OPTIMIZER, ""}
    assert layers.of("gradient_tape/sequential/dense_2/MatMul/MatMul_1") == "sequential/dense_2"
    assert layers.of("sequential/dense_1/MatMul/ReadVariableOp") == "sequential/dense_1"
    assert layers.of("gradient_tape/pow/mul_1") == ""


def test_moving_mean_of_a_layer_is_no_optimizer() -> None:
    layers = TensorFlowLayers(
        [
            ("model/bn/FusedBatchNormV3", "FusedBatchNormV3"),
            ("model/bn/AssignMovingAvg/AssignSubVariableOp", "AssignSubVariableOp"),
            ("Adam/Adam/update/ResourceApplyAdam", "ResourceApplyAdam"),
        ]
    )
    assert layers.of("model/bn/FusedBatchNormV3") == "model/bn"
    assert layers.of("StatefulPartitionedCall/gradient_tape/model/bn/FusedBatchNormGradV3") == "model/bn"
    assert layers.of("Adam/Adam/update/ResourceApplyAdam") == OPTIMIZER
