"""All assembled kernels that an x86-64 CPU with certain flags can run."""

from __future__ import annotations

from roofline_agent.calibrate.assembled import clock, peaks, streams, tiles
from roofline_agent.calibrate.assembled.clock import TickRate
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.kernels import Code, Form, PeakKernel, StreamKernel
from roofline_agent.calibrate.memory import Executable

# Wide enough for any memory beyond the second level; with 512 bits the triad is no faster there, and reading
# measured a little slower.
_OUTER_WIDTH = 256


class AssembledKernels:
    """See `kernels.KernelSet`. One a process: the rate of its time stamps gets better with time."""

    def __init__(self, flags: frozenset[str]) -> None:
        """flags: of /proc/cpuinfo. Raises CalibrationError where no instruction is known to be safe."""
        if not flags:
            raise CalibrationError("/proc/cpuinfo lists no CPU flags, so no instruction is known to be safe")
        if "sse2" not in flags:
            raise CalibrationError("the CPU lists no sse2 flag, so there is no measuring code for it")
        self._flags = flags
        self._ticks = TickRate() if flags >= clock.NEEDED_FLAGS else None

    @property
    def method(self) -> str:
        if self._ticks is None:
            return "clock not known: the CPU has no constant time stamp counter"
        return "clock by a chain of dependent additions right after each run"

    def forms(self, precision: str) -> tuple[Form, ...]:
        return peaks.usable_forms(self._flags, precision)

    def has_fma(self, form: Form) -> bool:
        return peaks.has_fma(form)

    def peak_kernel(self, form: Form, fused: bool = True) -> PeakKernel:
        return peaks.peak_kernel(form if fused else peaks.without_fma(form), fused)

    @property
    def multiplies_matrices(self) -> bool:
        return self._flags >= tiles.NEEDED_FLAGS

    def matrix_kernel(self) -> PeakKernel:
        tiles.ask_permission()
        return tiles.tile_kernel()

    def stream_kernel(self, operation: str, streaming: bool, outer: bool) -> StreamKernel:
        forms = [form for form in self.forms("f64") if not outer or form.width <= _OUTER_WIDTH]
        return streams.stream_kernel(forms[-1], operation, streaming, prefetch=outer)

    def load(self, code: Code) -> Executable:
        assert isinstance(code, bytes)
        return Executable(clock.with_probe(code) if self._ticks else code)

    def stamps_hz(self) -> float | None:
        return self._ticks.hz() if self._ticks else None
