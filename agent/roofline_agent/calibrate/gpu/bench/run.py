"""Chooses what there is to measure with. Every way out but a crash ends with the line {"done": true}."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from . import dispatch, gpus, nvml, output
from .cupy_gpu import CupyGpu
from .driver_gpu import Driver, DriverError, DriverGpu
from .libraries import Library
from .timing import FULL, QUICK, Plan
from .torch_gpu import TorchGpu

if TYPE_CHECKING:
    from .libraries import Clock


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("what", choices=("gpus", "dispatch", "facts"))
    parser.add_argument("--quick", action="store_true", help="a rough look, for tests")
    parser.add_argument("--shared", action="store_true", help="also GPUs that others compute on")
    asked = parser.parse_args(arguments)
    output.keep_output()
    plan = QUICK if asked.quick else FULL
    todo: dict[str, Callable[[Plan], None]] = {
        "dispatch": dispatch.measure,
        "gpus": partial(measure_gpus, shared=asked.shared),
        "facts": say_facts,
    }
    todo[asked.what](plan)
    output.say({"done": True})
    return 0


def say_facts(plan: Plan) -> None:
    """What the driver says of each GPU, for the theoretical ceilings."""
    with nvml.opened() as driver:
        for index in range(driver.count() if driver else 0):
            facts = driver.facts(index) if driver else None
            if facts is not None:
                output.say({"gpu": facts._asdict()})


_NAMED = 4  # processes


class Found(NamedTuple):
    """What sees GPUs, and how many."""

    devices: int
    uuid: Callable[[int], str]
    open: Callable[[int, Clock], Library]


def measure_gpus(plan: Plan, shared: bool) -> None:
    """Each GPU that something here sees, with all that sees it; if `shared` those too that others use."""
    if not _may_be_there():
        output.note("no GPU was measured: neither NVIDIA's nor AMD's driver is loaded here")
        return
    with nvml.opened() as driver:
        users = _users(driver)  # before a framework makes us one of them
        ways = [found for found in (_framework(), _driver()) if found]
        for at in range(max((way.devices for way in ways), default=0)):
            seeing = [way for way in ways if at < way.devices]
            index = _named(driver, at, seeing)
            if index is None or not _is_ours(index, users.get(index, ()), shared):
                continue
            _say_if_busy(driver, index)
            clock = nvml.clock_of(driver, index)
            libraries = [library for way in seeing if (library := _open(way, at, clock))]
            if libraries:
                gpus.measure(index, libraries, plan.sharing() if users.get(index) else plan)


def _users(driver: nvml.Driver | None) -> dict[int, tuple[int, ...]]:
    """NVML's number of each GPU -> the processes that compute on it."""
    handles = {index: driver.handle(index) for index in range(driver.count())} if driver else {}
    return {index: driver.users(handle) for index, handle in handles.items() if driver and handle}


def _named(driver: nvml.Driver | None, at: int, seeing: list[Found]) -> int | None:
    """NVML's number of a GPU; None for a part of one, which a note tells."""
    uuid = next((known for way in seeing if (known := way.uuid(at))), "")
    try:
        return nvml.index_of(driver, at, uuid, os.environ)
    except nvml.PartOfGpu as part:
        output.note(
            f"device {at} of CUDA was not measured: it is a part of a GPU (MIG), as {part}; what it can do "
            "is not what the GPU can. Measure with MIG off"
        )
        return None


def _is_ours(index: int, users: tuple[int, ...], shared: bool) -> bool:
    pids = ", ".join(str(pid) for pid in users[:_NAMED]) + (", ..." if len(users) > _NAMED else "")
    if users and shared:
        output.note(f"gpu {index}: measured beside other processes (pid {pids}), in little memory: too low")
    elif users:
        output.note(
            f"gpu {index} was not measured: other processes compute on it (pid {pids}); calibrate when they "
            "have ended, or with --force"
        )
    return shared or not users


def _may_be_there() -> bool:
    """Asked first: loading a framework takes seconds, and says the same at more length."""
    for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
            return True
    return os.path.exists("/dev/kfd")


def _open(way: Found, at: int, clock: Clock) -> Library | None:
    try:
        return way.open(at, clock)
    except Exception as error:
        output.note(f"gpu {at}: {type(error).__name__}: {str(error)[:300]}")
        return None


def _say_if_busy(driver: nvml.Driver | None, index: int) -> None:
    handle = driver.handle(index) if driver else None
    load = driver.utilization(handle) if driver and handle else None
    if load is not None and load > nvml.BUSY:
        output.note(
            f"gpu {index} was {load:.0%} busy before anything was measured: its ceilings may be too low"
        )


def _driver() -> Found | None:
    try:
        driver = Driver()
        return Found(driver.count(), driver.uuid, lambda at, clock: DriverGpu(driver, at, clock))
    except (OSError, DriverError, AttributeError) as error:
        output.note(f"no GPU can be measured by the driver alone: {error}")
        return None


def _framework() -> Found | None:
    """PyTorch if it is there and sees a GPU, else CuPy."""
    for name, found in (("torch", _torch), ("cupy", _cupy)):
        if importlib.util.find_spec(name) is None:
            continue
        try:
            return found(importlib.import_module(name))
        except Exception as error:
            output.note(f"no GPU was measured by {name}: {type(error).__name__}: {str(error)[:300]}")
    output.note("no matrix products were measured: neither torch nor cupy of this Python sees a GPU")
    return None


def _torch(torch: Any) -> Found:
    if not torch.cuda.is_available():
        raise LookupError(f"torch {torch.__version__} sees none")
    torch.set_grad_enabled(False)

    def uuid(at: int) -> str:
        return str(getattr(torch.cuda.get_device_properties(at), "uuid", ""))

    return Found(torch.cuda.device_count(), uuid, lambda at, clock: TorchGpu(torch, f"cuda:{at}", clock))


def _cupy(cupy: Any) -> Found:
    count = cupy.cuda.runtime.getDeviceCount()
    return Found(count, lambda at: "", lambda at, clock: CupyGpu(cupy, at, clock))
