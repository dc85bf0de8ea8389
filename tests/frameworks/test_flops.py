"""FLOPs of real models by the shapes in a trace of PyTorch's profiler, within 1 % of those by the sizes of
their layers, and of those that are published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from roofline_agent.recorded.traces.kineto import read
from roofline_server.model.efficiency import Transformer, flops_per_example

from ..agent.recorded.reading import read_file
from ..fakes import clean_environ
from .torch_runs import finish

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]
MODELS = Path(__file__).with_name("torch_models.py")
BATCH = 2
OWN = ("mlp", "cnn", "autoencoder", "lstm", "gru")
# Multiply-adds of an image of 224 x 224 in forward, as torchvision's documentation has them: He et al. 2016
# (with the stride in the 3 x 3 layers), Sandler et al. 2018, Liu et al. 2022, Dosovitskiy et al. 2021.
PUBLISHED = {"resnet50": 4.09e9, "mobilenet": 0.3e9, "convnext": 4.46e9, "vit": 17.56e9}


def step(python: str, model: str, folder: Path) -> tuple[float, dict[str, float]]:
    """FLOPs of a step by shapes, and what the training said of its layers."""
    trace = folder / "trace.json"
    done = finish([python, str(MODELS), model, str(trace)], clean_environ())
    found = read_file(read, str(trace))
    return sum(one.flops or 0.0 for one in found.kernels), json.loads(done.stdout.splitlines()[-1])


def near(flops: float) -> object:
    return pytest.approx(flops, rel=0.01)


@pytest.mark.parametrize("model", OWN)
def test_layers_of_all_kinds(torch_python: str, tmp_path: Path, model: str) -> None:
    by_shapes, own = step(torch_python, model, tmp_path)
    assert by_shapes == near(own["layers"])


def test_fused_attention_is_7_executed_of_6_of_the_model(torch_python: str, tmp_path: Path) -> None:
    """Its backward computes the scores again."""
    by_shapes, own = step(torch_python, "gpt", tmp_path)
    parameters = 4 * 12 * 256**2 + 1000 * 256
    model = BATCH * flops_per_example(Transformer(parameters, 256, 4, 256, causal=True))
    assert own["layers"] + 3 * own["attention"] == near(model)
    assert by_shapes == pytest.approx(own["layers"] + 3.5 * own["attention"], rel=0.002)
    assert by_shapes > 1.01 * model


def unet() -> float:
    """Two convolutions of 3 x 3 at each level, places x 9 x channels in x channels out, transposed ones of
    2 x 2 between them, and one of 1 x 1. The gradient of the image is not computed."""
    first = 64**2 * 9 * 1 * 16
    down = 64**2 * 9 * 16 * 16 + 32**2 * 9 * (16 * 32 + 32 * 32) + 16**2 * 9 * (32 * 64 + 64 * 64)
    up = 16**2 * 4 * 64 * 32 + 32**2 * 9 * (64 * 32 + 32 * 32)
    up += 32**2 * 4 * 32 * 16 + 64**2 * 9 * (32 * 16 + 16 * 16)
    return 2.0 * BATCH * (2 * first + 3 * (down + up + 64**2 * 16 * 2))


def experts() -> float:
    """Of 32 tokens, 128 wide: four products of width x width around the attention, a gate for four experts,
    and two experts a token, of two products of width x 4 width. The fused attention is executed 3.5 times."""
    layers = 4 * 128**2 + 128 * 4 + 2 * 2 * 4 * 128**2
    return 2.0 * BATCH * 32 * (3 * layers + 3.5 * 2 * 32 * 128)


def recommender() -> float:
    """Two stacks of layers and, between them, 27 vectors of 16 times each other. The gradient of the 13
    inputs is not computed."""
    stacks = 13 * 64 + 64 * 32 + 32 * 16 + (27 * 26 // 2 + 16) * 64 + 64 * 32 + 32 * 1
    return 2.0 * BATCH * (3 * (stacks + 27 * 27 * 16) - 13 * 64)


@pytest.mark.parametrize("analytic", [unet, experts, recommender])
def test_skips_experts_and_interactions_by_hand(
    torch_python: str, tmp_path: Path, analytic: Callable[[], float]
) -> None:
    by_shapes, _ = step(torch_python, analytic.__name__, tmp_path)
    assert by_shapes == near(analytic())


@pytest.mark.parametrize("model", PUBLISHED)
def test_models_of_papers(trainers_python: str, tmp_path: Path, model: str) -> None:
    by_shapes, own = step(trainers_python, model, tmp_path)
    assert own["forward"] == near(2 * BATCH * PUBLISHED[model])
    assert by_shapes == near(own["layers"] + 3 * own["attention"])


def test_transformers_by_6_n_and_12_l_h_t(trainers_python: str, tmp_path: Path) -> None:
    """GPT-2, with attention whose scores are computed in full, and BERT, whose head sees one token."""
    by_shapes, _ = step(trainers_python, "gpt2", tmp_path)
    gpt2 = Transformer(12 * 12 * 768**2 + 50257 * 768, 64, 12, 768)
    assert by_shapes == near(BATCH * flops_per_example(gpt2))
    by_shapes, _ = step(trainers_python, "bert", tmp_path)
    assert by_shapes == near(BATCH * flops_per_example(Transformer(12 * 12 * 768**2, 64, 12, 768)))
