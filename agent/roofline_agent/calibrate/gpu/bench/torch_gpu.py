"""A GPU through PyTorch: products by cuBLAS, streams by elementwise kernels, times by CUDA events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .libraries import Unsupported, Work

if TYPE_CHECKING:
    from .libraries import Clock

# Compute capability from which the tensor cores know a type; before, the library converts, or refuses.
SINCE = {"f64": (0, 0), "f32": (0, 0), "tf32": (8, 0), "f16": (0, 0), "bf16": (8, 0), "f8_e4m3": (8, 9)}


class TorchGpu:
    """See `libraries.Gpu`. device: "cuda:0"; "cpu" is for tests, where times are by the host's clock."""

    def __init__(self, torch: Any, device: str, index: int, clock: Clock = lambda: None) -> None:
        self._torch, self._device, self._clock = torch, torch.device(device), clock
        self._is_cuda = self._device.type == "cuda"
        self.index = index
        self.library = f"torch {torch.__version__}"
        self.name = "CPU"
        self.l2_bytes: int | None = None
        self.capability: tuple[int, int] | None = None
        if self._is_cuda:
            torch.cuda.set_device(self._device)
            properties = torch.cuda.get_device_properties(self._device)
            self.name = str(properties.name)
            self.l2_bytes = getattr(properties, "L2_cache_size", None) or None  # not in every version
            self.capability = (properties.major, properties.minor)

    @property
    def free_bytes(self) -> int:
        return int(self._torch.cuda.mem_get_info(self._device)[0]) if self._is_cuda else 1 << 30

    def gemm(self, precision: str, size: int) -> Work:
        torch = self._torch
        if self._is_cuda and self._lacks(precision):
            raise Unsupported(f"its tensor cores have no {precision} (compute capability {self._version()})")
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        what = f"C = A B of {size} x {size} matrices of random numbers, cuBLAS by {self.library}"
        flops = 2.0 * size**3
        if precision == "f8_e4m3":
            return Work(self._scaled(size), flops, f"{what} (_scaled_mm, fast accumulation, result in bf16)")
        types = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16"}
        dtype = getattr(torch, types[precision])
        a, b = (self._random((size, size), dtype) for _ in range(2))
        c = torch.empty_like(a)
        return Work(lambda: torch.mm(a, b, out=c), flops, what)

    def _lacks(self, precision: str) -> bool:
        if getattr(self._torch.version, "hip", None):
            return precision == "tf32"  # capabilities are NVIDIA's; what else a GPU lacks, its library says
        return bool(self.capability and self.capability < SINCE[precision])

    def _version(self) -> str:
        return ".".join(str(part) for part in self.capability or ())

    def _scaled(self, size: int) -> Any:
        torch = self._torch
        if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
            raise Unsupported(f"{self.library} has no FP8 product (torch._scaled_mm)")
        a = self._random((size, size), torch.float32).to(torch.float8_e4m3fn)
        b = self._random((size, size), torch.float32).to(torch.float8_e4m3fn).t()  # column by column
        one = torch.ones((), device=self._device, dtype=torch.float32)
        return lambda: torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=self._is_cuda
        )

    def _random(self, shape: tuple[int, ...], dtype: Any) -> Any:
        # Made as f32: not every device makes random numbers of every type.
        return self._torch.randn(shape, device=self._device, dtype=self._torch.float32).to(dtype)

    def stream(self, kind: str, array_bytes: int) -> list[Work]:
        torch, count = self._torch, array_bytes // 4
        a = self._random((count,), torch.float32)
        if kind == "read":
            total = torch.empty((), device=self._device)
            b = self._random((count,), torch.float32)
            return [
                Work(lambda: torch.sum(a, dim=0, out=total), 4 * count, "sum of an array of f32"),
                Work(lambda: torch.dot(a, b), 8 * count, "dot product of two arrays of f32"),
            ]
        b = torch.empty_like(a)
        if kind == "copy":
            return [
                Work(lambda: b.copy_(a), 8 * count, "b = a on f32, 8 bytes an element"),
                Work(lambda: torch.mul(a, 3.0, out=b), 8 * count, "b = 3 a on f32, 8 bytes an element"),
            ]
        c = self._random((count,), torch.float32)
        what = "a = b + 3 c on f32, 12 bytes an element"
        return [Work(lambda: torch.add(b, c, alpha=3.0, out=a), 12 * count, what)]

    def tiny(self) -> Work:
        one = self._torch.zeros(1, device=self._device)
        return Work(lambda: one.add_(1.0), 1, f"in-place add to a tensor of one element, {self.library}")

    def timed(self, work: Work, units: int) -> tuple[float, float | None]:
        if not self._is_cuda:
            return _timed_by_host(work, units), None
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(units):
            work.run()
        end.record()
        clock = self._clock()  # while the GPU still works
        end.synchronize()
        return begin.elapsed_time(end) / 1e3, clock

    def wait(self) -> None:
        if self._is_cuda:
            self._torch.cuda.synchronize(self._device)

    def release(self) -> None:
        if self._is_cuda:
            self._torch.cuda.empty_cache()


def _timed_by_host(work: Work, units: int) -> float:
    begin = time.perf_counter()
    for _ in range(units):
        work.run()
    return time.perf_counter() - begin
