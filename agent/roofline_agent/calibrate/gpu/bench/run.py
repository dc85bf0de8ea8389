"""Chooses what there is to measure with. Every way out but a crash ends with the line {"done": true}."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
from typing import Any

from . import dispatch, gpus, nvml, words
from .timing import FULL, QUICK, Plan
from .torch_gpu import TorchGpu


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("what", choices=("gpus", "dispatch"))
    parser.add_argument("--quick", action="store_true", help="a rough look, for tests")
    asked = parser.parse_args(arguments)
    words.keep_output()
    plan = QUICK if asked.quick else FULL
    if asked.what == "dispatch":
        dispatch.measure(plan)
    else:
        measure_gpus(plan)
    words.say({"done": True})
    return 0


def measure_gpus(plan: Plan) -> None:
    if importlib.util.find_spec("torch"):
        _torch(importlib.import_module("torch"), plan)
    else:
        words.note("no GPU was measured: this Python has no torch")


def _torch(torch: Any, plan: Plan) -> None:
    if not torch.cuda.is_available():
        words.note(f"no GPU was measured: torch {torch.__version__} sees none")
        return
    with nvml.opened() as driver, torch.no_grad():
        for at in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(at)
            index = nvml.index_of(driver, at, str(getattr(properties, "uuid", "")), os.environ)
            gpus.measure(TorchGpu(torch, f"cuda:{at}", index, nvml.clock_of(driver, index)), plan)
