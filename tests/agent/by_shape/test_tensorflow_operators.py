"""FLOPs of TensorFlow's operations by the shapes of their inputs. Counts are by hand: 2 x multiply-adds."""

from __future__ import annotations

import pytest
from roofline_agent.by_shape.tensorflow_operators import (
    TensorFlowOperation,
    TensorFlowWork,
    inputs_of,
    plain_kind,
)

N, IN, OUT = 32, 700, 100  # batch, inputs and outputs of a dense layer
GRADIENT = "gradient_tape/model/dense/MatMul/MatMul"


def operation(name: str, kind: str, shapes: str, layer: str = "model/dense") -> TensorFlowOperation:
    return TensorFlowOperation(name, kind, layer, inputs_of(shapes))


def flops(asked: TensorFlowOperation, *others: TensorFlowOperation) -> float | None:
    found = TensorFlowWork([asked, *others]).of(asked)
    return None if found is None else found.flops


def test_shapes_as_the_profile_writes_them() -> None:
    first, second = inputs_of("(float[32,256];int32[])")
    assert (first.kind, first.shape, first.elements) == ("float", (32, 256), 32 * 256)
    assert second.shape == ()
    assert inputs_of("") == inputs_of("(?)") == ()


@pytest.mark.parametrize(
    "kind", ["Conv2D", "_FusedConv2D", "_MklConv2D", "_MklNativeFusedConv2D", "_MklNativeConv2D"]
)
def test_what_a_rewritten_graph_adds_to_a_type(kind: str) -> None:
    assert plain_kind(kind) == "Conv2D"


def test_products_of_a_dense_layer_forward_and_backward() -> None:
    forward = operation(
        "model/dense/Relu", "_MklNativeFusedMatMul", f"(float[{N},{IN}];float[{IN},{OUT}];float[{OUT}])"
    )
    of_input = operation(GRADIENT, "_MklMatMul", f"(float[{N},{OUT}];float[{IN},{OUT}])")
    of_weights = operation(f"{GRADIENT}_1", "MatMul", f"(float[{N},{IN}];float[{N},{OUT}])")
    all_of_them = (forward, of_input, of_weights)
    assert [flops(one, *all_of_them) for one in all_of_them] == [2 * N * IN * OUT] * 3
    found = TensorFlowWork([forward]).of(forward)
    assert found is not None and found.precision == "f32"
    assert found.bytes == 4 * (N * IN + IN * OUT + N * OUT)


def test_gradients_of_a_square_layer_are_told_apart_by_their_names() -> None:
    """Both have factors of one shape, 32 x 700: dY x W' of a batch of 700 or X' x dY of one of 32."""
    shapes = f"(float[{N},{IN}];float[{N},{IN}])"
    both = operation(GRADIENT, "MatMul", shapes), operation(f"{GRADIENT}_1", "MatMul", shapes)
    assert flops(both[1], *both) == 2 * N * IN * IN, "the gradient of the weights sums over the batch"
    assert flops(both[0], *both) == 2 * N * N * IN, "that of the input over the outputs"
    assert flops(both[0]) == 2 * N * IN * IN, "the only one is that of the weights: the input needs none"


def test_gradients_of_a_graph_are_told_apart_as_those_of_a_tape() -> None:
    shapes = f"(float[{N},{IN}];float[{N},{IN}])"
    name = "train/gradients/model/dense/MatMul_grad/MatMul"
    both = operation(name, "MatMul", shapes), operation(f"{name}_1", "MatMul", shapes)
    assert [flops(one, *both) for one in both] == [2 * N * N * IN, 2 * N * IN * IN]


def test_product_that_may_be_a_gradient_or_have_a_transposed_factor_is_unknown() -> None:
    assert flops(operation("MatMul", "MatMul", f"(float[{N},{IN}];float[{N},{IN}])")) is None
    assert flops(operation("MatMul", "MatMul", f"(float[{N},{IN}];float[{OUT},{IN}])")) == 2 * N * IN * OUT
    assert flops(operation("MatMul", "MatMul", f"(float[{N},{N}];float[{N},{N}])")) == 2 * N**3


def test_convolution_has_the_output_that_its_gradients_show() -> None:
    """Stride 2: 16 x 16 outputs of a 32 x 32 image."""
    expected = 2 * N * 16 * 16 * 64 * 3 * 3 * 8
    weights, image, output = "float[3,3,8,64]", f"float[{N},32,32,8]", f"float[{N},16,16,64]"
    forward = operation("c/Conv2D", "_MklNativeFusedConv2D", f"({image};{weights};float[64])")
    of_weights = operation("gradient_tape/c/F", "Conv2DBackpropFilter", f"({image};int32[4];{output})")
    of_input = operation("gradient_tape/c/I", "Conv2DBackpropInput", f"(int32[4];{weights};{output})")
    together = (forward, of_weights, of_input)
    assert [flops(one, *together) for one in together] == [expected] * 3
    assert flops(forward) is None, "without its gradient its output is not known"


def test_depthwise_convolution_does_each_channel_alone() -> None:
    image, output = f"float[{N},8,8,16]", f"float[{N},8,8,32]"
    forward = operation("c/D", "DepthwiseConv2dNative", f"({image};float[3,3,16,2])")
    of_weights = operation(
        "gradient_tape/c/F", "DepthwiseConv2dNativeBackpropFilter", f"({image};int32[4];{output})"
    )
    assert flops(forward, of_weights) == 2 * N * 8 * 8 * 32 * 9


def test_layers_do_not_lend_each_other_outputs() -> None:
    image = f"float[{N},32,32,8]"
    forward = operation("a/Conv2D", "Conv2D", f"({image};float[3,3,8,64])", "a")
    other = operation("gradient_tape/b/F", "Conv2DBackpropFilter", f"({image};int32[4];{image})", "b")
    assert flops(forward, other) is None


def test_convolutions_of_one_layer_that_cannot_be_told_apart_have_no_flops() -> None:
    """Both have an image of one shape, and outputs that differ, as with strides of 1 and 2."""
    image, weights = f"float[{N},32,32,8]", "float[3,3,8,64]"
    forward = operation("block/Conv2D", "Conv2D", f"({image};{weights})")
    gradients = [
        operation(
            f"gradient_tape/block/F{size}",
            "Conv2DBackpropFilter",
            f"({image};int32[4];float[{N},{size},{size},64])",
        )
        for size in (32, 16)
    ]
    assert flops(forward, *gradients) is None
    assert flops(forward, gradients[0]) is not None
    of_input = operation(
        "gradient_tape/block/I", "Conv2DBackpropInput", f"(int32[4];{weights};float[{N},16,16,64])"
    )
    assert flops(of_input, forward, *gradients) is None


@pytest.mark.parametrize("shapes", ["(float[3];float[3])", "(float[3,4];float[5,6])", "(float[3,4])", ""])
def test_products_that_are_none_have_no_flops(shapes: str) -> None:
    assert flops(operation("m/MatMul", "MatMul", shapes)) is None


def test_other_operations_have_no_formula() -> None:
    assert flops(operation("m/Relu", "Relu", "(float[3,4])")) is None
