"""The analytic FLOP count of the parameter-server example, against figures worked out by hand."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow_ps"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """network.py by its path: the examples are no package."""
    name = "tensorflow_ps_network"
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / "network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_convolution_takes_a_multiply_add_per_output_and_filter_element(network: ModuleType) -> None:
    layer = network.Convolution(inputs=3, outputs=32, size=32, kernel=3, pool=2)
    # 32 x 32 positions x 32 outputs, each a sum over 3 x 3 x 3 = 27 products.
    assert network.forward_flops(layer, batch=1) == 2 * 32_768 * 27


def test_first_layer_has_no_gradient_of_its_input(network: ModuleType) -> None:
    tiny = network.Network(
        convolutions=(network.Convolution(inputs=1, outputs=2, size=4, kernel=3, pool=2),),
        dense=(network.Dense(inputs=8, outputs=10),),
    )
    # Convolution: 2 * 16 * 2 * 9 = 576, twice; dense: 2 * 8 * 10 = 160, three times.
    assert network.flops_per_step(1, tiny) == 2 * 576 + 3 * 160


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        # Forward per image: 1,769,472 + 18,874,368 + 23,592,960 + 1,310,720 + 5,120;
        # the first counts twice (3,538,944), the others three times (131,349,504).
        (1, 134_888_448),
        # What oneDNN's verbose lines of a worker add up to per step (TensorFlow 2.15.1).
        (32, 4_316_430_336),
        (64, 8_632_860_672),
    ],
)
def test_step_of_the_example_has_the_known_count(network: ModuleType, batch: int, expected: int) -> None:
    assert network.flops_per_step(batch) == expected


def test_layers_fit_together(network: ModuleType) -> None:
    convolutions, dense = network.NETWORK
    for before, after in itertools.pairwise(convolutions):
        assert (after.inputs, after.size) == (before.outputs, before.size // before.pool)
    last = convolutions[-1]
    assert dense[0].inputs == (last.size // last.pool) ** 2 * last.outputs
    assert [layer.inputs for layer in dense[1:]] == [layer.outputs for layer in dense[:-1]]
    assert dense[-1].outputs == network.CLASSES
