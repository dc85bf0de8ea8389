"""A GPU through CuPy: products by cuBLAS, streams by elementwise kernels, times by CUDA events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from .libraries import Unsupported, Work, array_bytes, described, sizes
from .timing import Plan

if TYPE_CHECKING:
    from .libraries import Clock

TYPES = {"f64": "float64", "f32": "float32", "f16": "float16"}


class CupyGpu:
    """See `libraries.GpuLibrary`."""

    def __init__(self, cupy: Any, at: int, clock: Clock = lambda: None) -> None:
        self._cupy, self._clock = cupy, clock
        self._device = cupy.cuda.Device(at)
        self._device.use()
        self._name = f"cupy {cupy.__version__}"
        self._l2_bytes = int(self._device.attributes.get("L2CacheSize", 0)) or None

    def works(self, name: str, plan: Plan) -> Iterator[Work]:
        kind, _, which = name.partition(".")
        if kind == "hbm":
            yield from self._streams(which, plan)
        elif kind == "peak":
            for size in sizes(plan, self._free_bytes):
                yield self._product(which, size)
        elif kind == "launch":
            one = self._cupy.zeros(1, "float32")
            what = f"in-place add to an array of one element, {self._name}"
            yield self._work(lambda: self._cupy.add(one, one, out=one), 1, what, "launch")

    @property
    def _free_bytes(self) -> int:
        return int(self._device.mem_info[0])

    def _work(self, run: Callable[[], object], amount: float, what: str, operation: str) -> Work:
        return Work(run, amount, what, operation, partial(self._timed, run))

    def _product(self, precision: str, size: int) -> Work:
        if precision not in TYPES:
            raise Unsupported(f"not with {self._name}; a Python with torch measures it")
        a, b = (self._random((size, size), TYPES[precision]) for _ in range(2))
        c = self._cupy.empty_like(a)
        what = f"C = A B of {size} x {size} matrices of random numbers by {self._name}"
        return self._work(lambda: self._cupy.matmul(a, b, out=c), 2.0 * size**3, what, "gemm")

    def _random(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._cupy.random.standard_normal(shape, "float32").astype(dtype)

    def _streams(self, kind: str, plan: Plan) -> Iterator[Work]:
        cupy, size = self._cupy, array_bytes(plan, self._free_bytes, self._l2_bytes)
        sets = described(size, self._l2_bytes)
        a = self._random((size // 4,), "float32")
        work = partial(self._work, operation=kind)
        if kind == "read":
            yield work(lambda: cupy.sum(a), size, f"sum of f32 by {self._name}; {sets}")
        elif kind == "copy":
            b = cupy.empty_like(a)
            yield work(
                lambda: cupy.copyto(b, a), 2 * size, f"b = a by {self._name}, read and written; {sets}"
            )
        else:
            b, c = self._random((size // 4,), "float32"), cupy.empty_like(a)
            triad = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a + 3.0f * b", "triad")
            what = f"c = a + 3 b on f32 by {self._name}, 12 bytes an element; {sets}"
            yield work(lambda: triad(a, b, c), 3 * size, what)

    def _timed(self, run: Callable[[], object], units: int) -> tuple[float, float | None]:
        begin, end = (self._cupy.cuda.Event() for _ in range(2))
        begin.record()
        for _ in range(units):
            run()
        end.record()
        clock = self._clock()  # while the GPU still works
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(begin, end)) / 1e3, clock

    def wait(self) -> None:
        self._device.synchronize()

    def release(self) -> None:
        self._cupy.get_default_memory_pool().free_all_blocks()
