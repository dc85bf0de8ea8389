"""Tests on real training frameworks: `make test-frameworks` makes their environments and names them here."""

from __future__ import annotations

import os

import pytest

from ..end_to_end.conftest import site

__all__ = ["site"]


def interpreter(variable: str) -> str:
    """The Python that has the framework; skips the test where there is none."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set: run `make test-frameworks`")
    return python


@pytest.fixture
def tensorflow_python() -> str:
    return interpreter("ROOFLINE_TF_PYTHON")


@pytest.fixture
def torch_python() -> str:
    return interpreter("ROOFLINE_TORCH_PYTHON")
