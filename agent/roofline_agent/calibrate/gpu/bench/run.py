"""Chooses what there is to measure with. Every way out but a crash ends with the line {"done": true}."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import dispatch, gpus, nvml, output
from .cupy_gpu import CupyGpu
from .libraries import GpuLibrary
from .timing import FULL, QUICK, Plan
from .torch_gpu import TorchGpu

if TYPE_CHECKING:
    from .libraries import Clock

INSTALL = (
    "install PyTorch (pip install torch) or CuPy (pip install cupy-cuda12x) with support for this GPU, "
    "or name a Python that has one with --python PATH"
)
_NAMED = 4  # processes; more are only hinted at


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("what", choices=("gpus", "dispatch", "facts"))
    parser.add_argument("--quick", action="store_true", help="a rough look, for tests")
    parser.add_argument("--shared", action="store_true", help="also GPUs that others compute on")
    asked = parser.parse_args(arguments)
    output.keep_output()
    plan = QUICK if asked.quick else FULL
    if asked.what == "dispatch":
        dispatch.measure(plan)
    elif asked.what == "gpus":
        measure_gpus(plan, asked.shared)
    else:
        report_facts()
    output.write({"done": True})
    return 0


def report_facts() -> None:
    """What the driver reports of each GPU, for the theoretical ceilings."""
    with nvml.opened() as driver:
        for index in range(driver.count() if driver else 0):
            facts = driver.facts(index) if driver else None
            if facts is not None:
                output.write({"gpu": facts._asdict()})


class Framework(NamedTuple):
    """A framework that sees GPUs, and how many."""

    devices: int
    uuid: Callable[[int], str]
    open: Callable[[int, Clock], GpuLibrary]


def measure_gpus(plan: Plan, shared: bool) -> None:
    """Each GPU that PyTorch or CuPy sees; those that others compute on only if `shared`."""
    if not _has_driver():
        output.note("no GPU was measured: neither NVIDIA's nor AMD's driver is loaded here")
        return
    with nvml.opened() as driver:
        handles = [driver.handle(index) for index in range(driver.count())] if driver else []
        # Asked before a framework makes us one of them.
        users = [driver.users(handle) if driver and handle else () for handle in handles]
        framework = find_framework()
        if framework is None:
            return
        for at in range(framework.devices):
            try:
                index = nvml.index_of(driver, at, framework.uuid(at), os.environ)
            except nvml.PartOfGpu as part:
                output.note(
                    f"device {at} of CUDA was not measured: it is a part of a GPU (MIG), as {part}; what it "
                    "can do is not what the GPU can. Measure with MIG off"
                )
                continue
            others = users[index] if index < len(users) else ()
            if not _may_measure(index, others, shared):
                continue
            _note_if_busy(driver, index)
            try:
                library = framework.open(at, nvml.clock_of(driver, index))
            except Exception as error:
                output.note(f"gpu {at}: {type(error).__name__}: {str(error)[:300]}")
                continue
            gpus.measure(index, library, plan.sharing() if others else plan)


def _has_driver() -> bool:
    """Asked first: loading a framework takes seconds, and says the same at more length."""
    for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
            return True
    return os.path.exists("/dev/kfd")


def _may_measure(index: int, users: tuple[int, ...], shared: bool) -> bool:
    """Whether a GPU with these users is measured; notes what they do to it."""
    if not users:
        return True
    pids = ", ".join(str(pid) for pid in users[:_NAMED])
    if len(users) > _NAMED:
        pids += ", ..."
    if shared:
        output.note(f"gpu {index}: measured beside other processes (pid {pids}), in little memory: too low")
    else:
        output.note(
            f"gpu {index} was not measured: other processes compute on it (pid {pids}); calibrate when they "
            "have ended, or with --force"
        )
    return shared


def _note_if_busy(driver: nvml.Driver | None, index: int) -> None:
    handle = driver.handle(index) if driver else None
    load = driver.utilization(handle) if driver and handle else None
    if load is not None and load > nvml.BUSY:
        output.note(
            f"gpu {index} was {load:.0%} busy before anything was measured: its ceilings may be too low"
        )


def find_framework() -> Framework | None:
    """PyTorch if it is there and sees a GPU, else CuPy; None with a note that says what to install."""
    installed = [name for name in ("torch", "cupy") if importlib.util.find_spec(name)]
    for name in installed:
        try:
            found = _FRAMEWORKS[name](importlib.import_module(name))
            if found.devices:
                return found
            output.note(f"no GPU was measured by {name}: it sees none")
        except Exception as error:
            output.note(f"no GPU was measured by {name}: {type(error).__name__}: {str(error)[:300]}")
    if installed:
        output.note(f"no GPU was measured: {' and '.join(installed)} of {sys.executable} see none; {INSTALL}")
    else:
        output.note(f"no GPU was measured: {sys.executable} has neither torch nor cupy; {INSTALL}")
    return None


def _torch(torch: Any) -> Framework:
    if not torch.cuda.is_available():
        raise LookupError(f"torch {torch.__version__} sees none")
    torch.set_grad_enabled(False)

    def uuid(at: int) -> str:
        return str(getattr(torch.cuda.get_device_properties(at), "uuid", ""))

    return Framework(torch.cuda.device_count(), uuid, lambda at, clock: TorchGpu(torch, f"cuda:{at}", clock))


def _cupy(cupy: Any) -> Framework:
    count = cupy.cuda.runtime.getDeviceCount()
    return Framework(count, lambda at: "", lambda at, clock: CupyGpu(cupy, at, clock))


_FRAMEWORKS = {"torch": _torch, "cupy": _cupy}
