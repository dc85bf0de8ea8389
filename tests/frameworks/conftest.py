"""Tests on real training frameworks: `make test-frameworks` makes their environments and names them here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from ..end_to_end.conftest import site

__all__ = ["site"]


def interpreter(variable: str) -> str:
    """The Python that has the framework; skips the test where there is none."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set: run `make test-frameworks`")
    return python


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What launchers and frameworks leave lying (torchrun: its logs) goes with the tests' own files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        yield


@pytest.fixture
def tensorflow_python() -> str:
    return interpreter("ROOFLINE_TF_PYTHON")


@pytest.fixture
def jax_python() -> str:
    return interpreter("ROOFLINE_JAX_PYTHON")


@pytest.fixture
def ray_python() -> str:
    return interpreter("ROOFLINE_RAY_PYTHON")


@pytest.fixture
def torch_python() -> str:
    return interpreter("ROOFLINE_TORCH_PYTHON")


@pytest.fixture
def trainers_python() -> str:
    """PyTorch with Lightning, Transformers, Accelerate and DeepSpeed."""
    return interpreter("ROOFLINE_TRAINERS_PYTHON")


def with_horovod(python: str, framework: str) -> str:
    done = subprocess.run([python, "-c", f"import horovod.{framework}"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(
            f"Horovod is not built into {python}: install cmake and g++, then run `make test-frameworks`"
        )
    return python
