"""A GPU through the driver alone (libcuda.so.1, by ctypes), with kernels of our own (ptx.py)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from . import ptx
from .libraries import MIB, Unsupported, Work, array_bytes, described
from .timing import Plan

if TYPE_CHECKING:
    from .libraries import Clock

_SMS, _L2 = 16, 38  # CUdevice_attribute: MULTIPROCESSOR_COUNT, L2_CACHE_SIZE
# Blocks of 256 threads an SM: whole waves where 4, 6 or 8 of them fit at once, which is all GPUs since 2014.
_BLOCKS_AN_SM = 24
_PASSES = 64  # over the L2's working set in one launch: some 100 us
_FMA_ROUNDS = 256
_PATTERN = 0x3F9E3779  # f32 1.236: neither zero nor what makes FLOPs slow


class DriverError(Exception):
    """A call of the driver failed; the text has its name and the driver's words."""


class Driver:
    """libcuda.so.1. Raises OSError where it is not there, DriverError where it does not start."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise DriverError(f"{function}: {self._words(status)}")

    def function(self, name: str) -> Any:
        return getattr(self._library, name)

    def _words(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(ctypes.c_int(status), ctypes.byref(text))
        return text.value.decode(errors="replace") if text.value else f"error {status}"

    def count(self) -> int:
        number = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def uuid(self, at: int) -> str:
        """As NVML writes it, without "GPU-"; "" where the driver is too old to say."""
        raw = (ctypes.c_ubyte * 16)()
        with contextlib.suppress(DriverError, AttributeError):
            self.call("cuDeviceGetUuid", ctypes.byref(raw), ctypes.c_int(at))
            digits = bytes(raw).hex()
            return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
        return ""


class DriverGpu:
    """See `libraries.Library`. Works in the device's primary context, which libraries use, too."""

    def __init__(self, driver: Driver, at: int, clock: Clock = lambda: None) -> None:
        self._driver, self._clock = driver, clock
        self._device = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(at))
        self._sms, l2_bytes = self._attribute(_SMS), self._attribute(_L2)
        self._l2_bytes = l2_bytes or None
        context = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        driver.call("cuCtxSetCurrent", context)
        self._module = ctypes.c_void_p()
        code = ctypes.c_char_p(ptx.source().encode())
        driver.call("cuModuleLoadData", ctypes.byref(self._module), code)
        self._events = [self._event(), self._event()]
        self._arrays: list[ctypes.c_uint64] = []

    def works(self, name: str, plan: Plan) -> Iterator[Work]:
        kind, _, which = name.partition(".")
        if kind == "hbm":
            yield self._stream(which, plan)
        elif kind == "l2":
            yield self._l2_read()
        elif kind == "launch":
            empty = self._launch("empty", 1, 32)
            yield self._work(empty, 1, "an empty kernel by the driver's interface, from Python", "launch")
        elif which in ("f32", "f64"):
            yield self._multiply_adds(which)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._driver.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device)
        return value.value

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def _array(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._arrays.append(address)
        words = ctypes.c_size_t(size // 4)
        self._driver.call("cuMemsetD32_v2", address, ctypes.c_uint(_PATTERN), words)
        return address

    def _launch(self, name: str, blocks: int, threads: int, *values: Any) -> Callable[[], None]:
        """Launches a kernel when called. values: its parameters, as ctypes numbers of their size."""
        function = ctypes.c_void_p()
        named = ctypes.c_char_p(name.encode())
        self._driver.call("cuModuleGetFunction", ctypes.byref(function), self._module, named)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
        none = ctypes.c_void_p()
        one, shape = ctypes.c_uint(1), (ctypes.c_uint(blocks), ctypes.c_uint(threads))
        launch, nothing_shared = self._driver.function("cuLaunchKernel"), ctypes.c_uint(0)
        # Made once: a call shall cost the host little more than the driver takes.
        arguments = (function, shape[0], one, one, shape[1], one, one, nothing_shared, none, pointers, none)

        def run(keep: tuple[Any, ...] = values) -> None:
            if launch(*arguments) != 0:
                raise DriverError(f"the kernel {name} was not launched")

        return run

    def _work(self, run: Callable[[], object], amount: float, what: str, operation: str) -> Work:
        return Work(run, amount, what, operation, partial(self._timed, run))

    @property
    def _blocks(self) -> int:
        return self._sms * _BLOCKS_AN_SM

    @property
    def _free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def _stream(self, kind: str, plan: Plan) -> Work:
        wanted = array_bytes(plan, self._free_bytes, self._l2_bytes)
        rounds = max(1, wanted // (self._blocks * ptx.TILE))
        size = rounds * self._blocks * ptx.TILE
        arrays = [self._array(size) for _ in range({"read": 1, "copy": 2, "triad": 3}[kind])]
        if kind == "read":
            values = [*arrays, *_u32(self._blocks, rounds, 1), self._array(ptx.TILE)]
        else:
            values = [*arrays, *_u32(rounds)]
        what = {"read": "reading", "copy": "b = a, read and written", "triad": "a = b + 3 c on f32"}[kind]
        run = self._launch(kind, self._blocks, ptx.THREADS, *values)
        method = f"{what} by a kernel of our own, 16 bytes a load; {described(size, self._l2_bytes)}"
        return self._work(run, len(arrays) * size, method, kind)

    def _l2_read(self) -> Work:
        if not self._l2_bytes:
            raise Unsupported("the driver does not tell how large the L2 is")
        # A quarter: the L2 of large GPUs is two halves, and what both use is held twice.
        parts = max(1, self._l2_bytes // 4 // ptx.TILE)
        size = parts * ptx.TILE
        values = [self._array(size), *_u32(parts, 1, _PASSES), self._array(ptx.TILE)]
        run = self._launch("read", self._blocks, ptx.THREADS, *values)
        what = f"reading {size / MIB:.1f} MiB again and again, past the L1, by a kernel of our own"
        method = f"{what}; the L2 has {self._l2_bytes / MIB:.1f} MiB"
        return self._work(run, self._blocks * ptx.TILE * _PASSES, method, "read")

    def _multiply_adds(self, precision: str) -> Work:
        number = ctypes.c_float if precision == "f32" else ctypes.c_double
        values = [number(0.999), number(0.001), *_u32(_FMA_ROUNDS), self._array(ptx.TILE)]
        run = self._launch(f"fma_{precision}", self._blocks, ptx.THREADS, *values)
        each = 2 * ptx.CHAINS * ptx.LINKS * _FMA_ROUNDS
        what = f"{ptx.CHAINS} independent chains of multiply-adds a thread by a kernel of our own"
        return self._work(run, each * self._blocks * ptx.THREADS, what, "fma")

    def _timed(self, run: Callable[[], object], units: int) -> tuple[float, float | None]:
        begin, end = self._events
        default_stream = ctypes.c_void_p()
        self._driver.call("cuEventRecord", begin, default_stream)
        for _ in range(units):
            run()
        self._driver.call("cuEventRecord", end, default_stream)
        clock = self._clock()  # while the GPU still works
        self._driver.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return milliseconds.value / 1e3, clock

    def wait(self) -> None:
        self._driver.call("cuCtxSynchronize")

    def release(self) -> None:
        while self._arrays:
            self._driver.call("cuMemFree_v2", self._arrays.pop())


def _u32(*numbers: int) -> list[ctypes.c_uint32]:
    return [ctypes.c_uint32(number) for number in numbers]
