"""A GPU through PyTorch: products by cuBLAS, streams by elementwise kernels, times by CUDA events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from .libraries import Unsupported, Work, array_bytes, described, sizes, timed_by_host
from .timing import Plan

if TYPE_CHECKING:
    from .libraries import Clock

INFINITY_CACHE_BYTES = 256 << 20  # AMD CDNA 3 white paper; arrays must not fit into it either
# Compute capability from which the tensor cores know a type; before, the library converts, or refuses.
SINCE = {"tf32": (8, 0), "bf16": (8, 0), "f8_e4m3": (8, 9)}
TYPES = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16"}


class TorchGpu:
    """See `GpuLibrary`. device: "cuda:0"; "cpu" is for tests, where times are by the host's clock."""

    def __init__(self, torch: Any, device: str, clock: Clock = lambda: None) -> None:
        self._torch, self._device, self._clock = torch, torch.device(device), clock
        self._is_cuda = self._device.type == "cuda"
        self._name = f"torch {torch.__version__}"
        self._l2_bytes: int | None = None
        self._capability: tuple[int, int] | None = None
        if self._is_cuda:
            torch.cuda.set_device(self._device)
            properties = torch.cuda.get_device_properties(self._device)
            self._l2_bytes = getattr(properties, "L2_cache_size", None) or None  # not in every version
            if torch.version.hip:
                # Behind the L2 of an MI300 lies a cache that PyTorch does not report.
                self._l2_bytes = max(self._l2_bytes or 0, INFINITY_CACHE_BYTES)
            self._capability = (properties.major, properties.minor)

    def works(self, name: str, plan: Plan) -> Iterator[Work]:
        kind, _, which = name.partition(".")
        if kind == "hbm":
            yield from self._streams(which, plan)
        elif kind == "peak":
            for size in sizes(plan, self._free_bytes):
                yield self._product(which, size)
        elif kind == "launch":
            one = self._torch.zeros(1, device=self._device)
            what = f"in-place add to a tensor of one element, {self._name}"
            yield self._work(lambda: one.add_(1.0), 1, what, "launch")

    @property
    def _free_bytes(self) -> int:
        return int(self._torch.cuda.mem_get_info(self._device)[0]) if self._is_cuda else 1 << 30

    def _work(self, run: Callable[[], object], amount: float, what: str, operation: str) -> Work:
        timed = self._timed if self._is_cuda else timed_by_host
        return Work(run, amount, what, operation, partial(timed, run))

    def _product(self, precision: str, size: int) -> Work:
        torch = self._torch
        if self._is_cuda and self._lacks(precision):
            version = ".".join(str(part) for part in self._capability or ())
            raise Unsupported(f"its tensor cores have no {precision} (compute capability {version})")
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        what = f"C = A B of {size} x {size} matrices of random numbers by {self._name}"
        flops = 2.0 * size**3
        if precision == "f8_e4m3":
            what += " (_scaled_mm, fast accumulation, result in bf16)"
            return self._work(self._scaled(size), flops, what, "gemm")
        dtype = getattr(torch, TYPES[precision])
        a, b = (self._random((size, size), dtype) for _ in range(2))
        c = torch.empty_like(a)
        return self._work(lambda: torch.mm(a, b, out=c), flops, what, "gemm")

    def _lacks(self, precision: str) -> bool:
        if getattr(self._torch.version, "hip", None):
            return precision == "tf32"  # capabilities are NVIDIA's; what else a GPU lacks, its library says
        return bool(self._capability and self._capability < SINCE.get(precision, (0, 0)))

    def _scaled(self, size: int) -> Callable[[], object]:
        torch = self._torch
        if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
            raise Unsupported(f"{self._name} has no FP8 product (torch._scaled_mm)")
        a = self._random((size, size), torch.float8_e4m3fn)
        b = self._random((size, size), torch.float8_e4m3fn).t()  # this one column by column
        one = torch.ones((), device=self._device, dtype=torch.float32)
        return lambda: torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=self._is_cuda
        )

    def _random(self, shape: tuple[int, ...], dtype: Any) -> Any:
        # Made as f32: not every type can be made at random.
        return self._torch.randn(shape, device=self._device, dtype=self._torch.float32).to(dtype)

    def _streams(self, kind: str, plan: Plan) -> Iterator[Work]:
        torch, size = self._torch, array_bytes(plan, self._free_bytes, self._l2_bytes)
        count, sets = size // 4, described(size, self._l2_bytes)
        a, b = (self._random((count,), torch.float32) for _ in range(2))
        work = partial(self._work, operation=kind)
        if kind == "read":
            total = torch.empty((), device=self._device)
            yield work(lambda: torch.sum(a, dim=0, out=total), size, f"sum of f32 by {self._name}; {sets}")
            yield work(lambda: torch.dot(a, b), 2 * size, f"dot product of f32 by {self._name}; {sets}")
        elif kind == "copy":
            yield work(lambda: b.copy_(a), 2 * size, f"b = a by {self._name}, read and written; {sets}")
            what = f"b = 3 a on f32 by {self._name}, read and written; {sets}"
            yield work(lambda: torch.mul(a, 3.0, out=b), 2 * size, what)
        else:
            c = torch.empty_like(a)
            what = f"c = a + 3 b on f32 by {self._name}, 12 bytes an element; {sets}"
            yield work(lambda: torch.add(a, b, alpha=3.0, out=c), 3 * size, what)

    def _timed(self, run: Callable[[], object], units: int) -> tuple[float, float | None]:
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(units):
            run()
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
