"""What surrounds Nsight Compute's tables: its messages, its session page, the program's own output."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..collector import Collector

_MESSAGE = re.compile(r"==(?P<kind>[A-Z]+)==\s*(?P<text>.*)")
_SILENT = frozenset({"PROF"})  # connected, disconnected, profiling: no news
PERMISSION = (
    "the driver keeps its counters for administrators: load the nvidia module with "
    "NVreg_RestrictProfilingToAdminUsers=0 (RmProfilingAdminOnly in /proc/driver/nvidia/params must read 0), "
    "or run the profiler with CAP_SYS_ADMIN"
)
# SuperBench's cublaslt_gemm: m n k batch microseconds TFLOP/s.
_GEMM = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})\s+(\d+\.\d+)\s+(\d+\.\d+)\s*")
_AGREES = 0.01  # computed and printed TFLOP/s of such a line
_SESSION = {
    "Nsight Compute Target": "version",
    "Profiler Command Line": "command",
    "Created": "created",
    "CUDA Version": "cuda_version",
    "Target Name": "host",
    "display_name": "device",
    "compute_capability_major": "major",
    "compute_capability_minor": "minor",
    "multiprocessor_count": "multiprocessors",
}
_ATTRIBUTE_HEADERS = frozenset({"Launch Attribute", "Session Attribute", "Device Attribute"})


class OtherLines:
    """Takes lines that belong to no table of kernels."""

    def __init__(self, found: Collector, other: Callable[[str, int], None]) -> None:
        """other: gets each line that is neither a message nor a known one of a program."""
        self._other = other
        self.is_session = self.is_source = False
        self._found = found
        self._session: dict[str, str] = {}
        self._best_gemm = 0.0

    def line(self, text: str, number: int) -> None:
        message = _MESSAGE.match(text)
        if message:
            if message["kind"] not in _SILENT:
                printed = message["text"].strip()
                self._found.warn(f"ncu: {printed}", number)
                if "ERR_NVGPUCTRPERM" in printed:
                    self._found.warn(PERMISSION, number)
        elif len(text) < 200 and (gemm := _GEMM.fullmatch(text)):
            # A rate that the profiled program itself prints is a fact about the run, not a measured kernel.
            m, n, k, batch, microseconds, tflops = (float(one) for one in gemm.groups())
            rate = 2e6 * m * n * k * max(batch, 1.0) / microseconds if microseconds > 0 else 0.0
            if abs(rate - tflops * 1e12) <= _AGREES * rate and rate > self._best_gemm:
                self._best_gemm = rate
                self._found.facts["application_gemm"] = f"{m:g}x{n:g}x{k:g}"
                self._found.facts["application_flops_per_s"] = rate
        else:
            self._other(text, number)

    def row(self, cells: list[str]) -> None:
        """A row of a table that is not about kernels: of the session page or the source page."""
        if len(cells) < 2:
            return
        self.is_session = self.is_session or cells[0] in _ATTRIBUTE_HEADERS
        self.is_source = self.is_source or (cells[0] == "#" and "Source" in cells)
        if self.is_session and cells[0] in _SESSION:
            self._session.setdefault(_SESSION[cells[0]], cells[1].strip()[:500])

    def end(self) -> None:
        """The session page's attributes become facts."""
        session = self._session
        self._found.version = session.pop("version", self._found.version).partition(" ")[0]
        major, minor = session.pop("major", ""), session.pop("minor", "")
        if major and minor:
            self._found.facts.setdefault("compute_capability", f"{major}.{minor}")
        for key, value in session.items():
            self._found.facts.setdefault(key, value)
        if self.is_session:
            self._found.warn("a session page describes the machine: kernels are on `--page raw`")
        if self.is_source:
            self._found.warn("a source page counts by line of code: kernels are on `--page raw`")
