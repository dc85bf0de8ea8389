"""FLOPs of real models by the shapes in a trace of PyTorch's profiler, within 1 % of those by the sizes of
their layers, and of those that are published."""

from __future__ import annotations

import json
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
