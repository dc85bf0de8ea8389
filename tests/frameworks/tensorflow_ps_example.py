"""The example of a TensorFlow parameter-server training, with and without us."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site

EXAMPLE = REPOSITORY / "examples" / "tensorflow_ps"
JOB = "tensorflow-ps"
BATCH = 32
STEPS = 40


def example_network() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_network", EXAMPLE / "network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def launch(
    site: Site, python: str, wrapped: bool, steps: int = STEPS, options: Sequence[Any] = ()
) -> list[str]:
    command: list[Any] = [sys.executable, EXAMPLE / "launch.py", "--python", python, "--steps", steps]
    command += ["--batch", BATCH, "--logs", site.folder / "training", *options]
    if wrapped:
        command += ["--prefix", f"{COMMANDS / 'roofline-agent'} run --job {JOB} --"]
    return [str(part) for part in command]
