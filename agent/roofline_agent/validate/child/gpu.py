"""Known work on the first GPU, by CUDA's driver API alone: no framework is needed.

`fma`: 16 FLOP a turn and thread, in single precision. `fill`: writes each of so many words of 4 bytes once.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .done import Cannot, Quantities, amounts

FMA, FILL = "roofline_fma", "roofline_fill"
THREADS, BLOCKS, CHAINS = 256, 2048, 8
ONCE_TURNS = 1000
# Behind the turns each thread adds up its chains.
ONCE_FLOPS = THREADS * BLOCKS * (2 * CHAINS * ONCE_TURNS + CHAINS - 1)
FILLED, COPIED, ALLOCATED = 1 << 30, 1 << 30, 512 << 20  # bytes
BURST_S, BURSTS, FILLS = 0.1, 10, 100
_LINES = [f"    fma.rn.f32 %f{chain}, %f{chain}, %f8, %f9;" for chain in range(CHAINS)]
_STARTS = [f"    cvt.rn.f32.u32 %f{chain}, %r2;" for chain in range(CHAINS)]
_SUMS = [f"    add.f32 %f0, %f0, %f{chain};" for chain in range(1, CHAINS)]
PTX = (
    f"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry {FMA}(.param .u64 out, .param .u64 turns)
{{
    .reg .f32 %f<10>;
    .reg .u32 %r<3>;
    .reg .u64 %d<3>;
    .reg .pred %p;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [turns];
    mov.u32 %r2, %tid.x;
{chr(10).join(_STARTS)}
    mov.f32 %f8, 0f3F7FBE77;
    mov.f32 %f9, 0f3A83126F;
AGAIN:
{chr(10).join(_LINES)}
    sub.u64 %d2, %d2, 1;
    setp.ne.u64 %p, %d2, 0;
    @%p bra AGAIN;
{chr(10).join(_SUMS)}
    st.global.f32 [%d1], %f0;
    ret;
}}
.visible .entry {FILL}(.param .u64 out, .param .u64 words)
{{
    .reg .u32 %r<6>;
    .reg .u64 %d<7>;
    .reg .pred %p;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [words];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mul.wide.u32 %d3, %r1, %r2;
    cvt.u64.u32 %d4, %r3;
    add.u64 %d3, %d3, %d4;
    mul.wide.u32 %d5, %r2, %r4;
NEXT:
    setp.ge.u64 %p, %d3, %d2;
    @%p bra DONE;
    shl.b64 %d6, %d3, 2;
    add.u64 %d6, %d6, %d1;
    st.global.u32 [%d6], %r3;
    add.u64 %d3, %d3, %d5;
    bra NEXT;
DONE:
    ret;
}}
""".encode()
    + b"\0"
)


class CudaDevice:
    """The first GPU, in a context of its own."""

    def __init__(self) -> None:
        """Raises Cannot."""
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Cannot("no NVIDIA driver is loaded here") from error
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self._functions: dict[str, ctypes.c_void_p] = {}
        for name in (FMA, FILL):
            self._functions[name] = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(self._functions[name]), module, name.encode())
        self._events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self._events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Raises Cannot with CUDA's number for what went wrong."""
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise Cannot(f"{name} failed on the first GPU (CUDA error {status})")

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer: ctypes.c_uint64) -> None:
        self.call("cuMemFree_v2", pointer)

    def pinned(self, size: int) -> ctypes.c_void_p:
        """Memory of the host that the GPU copies from by itself."""
        pointer = ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def start(self, name: str, out: ctypes.c_uint64, count: int) -> None:
        number, none = ctypes.c_uint64(count), ctypes.c_void_p()
        given = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(number))
        shape = (BLOCKS, 1, 1, THREADS, 1, 1, 0)
        self.call("cuLaunchKernel", self._functions[name], *shape, none, given, none)

    def seconds(self, work: Callable[[], None]) -> float:
        """By the GPU's own clock, from the begin of the work to its end."""
        begin, end = self._events
        self.call("cuEventRecord", begin, None)
        work()
        self.call("cuEventRecord", end, None)
        self.call("cuEventSynchronize", end)
        took = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(took), begin, end)
        return took.value / 1e3


class GpuWork:
    """Kernels, copies and memory of known amounts."""

    def __init__(self) -> None:
        self._device: CudaDevice | None = None
        self._out = ctypes.c_uint64()
        self._turns = 0
        self._host = ctypes.c_void_p()
        self._more: ctypes.c_uint64 | None = None
        self._do: dict[str, Callable[[CudaDevice], Quantities]] = {
            "gpu.busy": self._busy,
            "gpu.fill": self._fill,
            "gpu.copy": self._copy,
            "gpu.memory": self._allocate,
        }

    def knows(self, name: str) -> bool:
        return name in self._do

    def prepare(self, name: str) -> bool:
        """Raises Cannot."""
        if self._more is not None and self._device is not None:
            self._device.free(self._more)
            self._more = None
            return True
        if self._device is not None:
            return False
        device = CudaDevice()
        self._out, self._host = device.allocate(FILLED), device.pinned(COPIED)
        turns, took = ONCE_TURNS, 0.0
        while took < BURST_S / 4:
            turns *= 2
            took = device.seconds(partial(device.start, FMA, self._out, turns))
        self._turns = round(turns * BURST_S / took)
        self._device = device
        return True

    def do(self, name: str) -> Quantities:
        """Raises Cannot."""
        assert self._device is not None
        return self._do[name](self._device)

    def _busy(self, device: CudaDevice) -> Quantities:
        """Busy for half of the time, in bursts."""
        busy_s = 0.0
        for _ in range(BURSTS):
            busy_s += device.seconds(lambda: device.start(FMA, self._out, self._turns))
            time.sleep(BURST_S)
        return amounts(busy_ns=busy_s * 1e9, busy_s=busy_s)

    def _fill(self, device: CudaDevice) -> Quantities:
        def fills() -> None:
            for _ in range(FILLS):
                device.start(FILL, self._out, FILLED // 4)

        device.seconds(fills)
        return amounts(filled_bytes=FILLS * FILLED)

    def _copy(self, device: CudaDevice) -> Quantities:
        device.call("cuMemcpyHtoD_v2", self._out, self._host, ctypes.c_size_t(COPIED))
        device.call("cuMemcpyDtoH_v2", self._host, self._out, ctypes.c_size_t(COPIED))
        device.call("cuCtxSynchronize")
        return amounts(to_gpu_bytes=COPIED, from_gpu_bytes=COPIED)

    def _allocate(self, device: CudaDevice) -> Quantities:
        self._more = device.allocate(ALLOCATED)
        return amounts(memory_bytes=ALLOCATED)


def once() -> None:
    """Start each kernel once, for ncu to count. Raises Cannot."""
    device = CudaDevice()
    out = device.allocate(FILLED)
    device.start(FMA, out, ONCE_TURNS)
    device.start(FILL, out, FILLED // 4)
    device.call("cuCtxSynchronize")
