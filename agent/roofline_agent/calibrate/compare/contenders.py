"""The tools that can run next to our own kernels, each asked test by test."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.priority import prefer
from roofline_agent.child_process import ChildProcess

_HERE = Path(__file__).parent
# The first answer of a child comes after it has touched its buffers.
_COMPILE_S, _LIKWID_S = 60.0, 60.0
_MBYTES = re.compile(r"^MByte/s:\s+([\d.]+)", re.MULTILINE)
_MFLOPS = re.compile(r"^MFlops/s:\s+([\d.]+)", re.MULTILINE)


class Contender(NamedTuple):
    """Who runs which tests; `measure` gives a test's rate and raises CalibrationError if it fails."""

    title: str
    tests: Mapping[str, str]  # test -> what it is
    measure: Callable[[str], float]


@contextmanager
def server(title: str, tests: Mapping[str, str], command: Sequence[str]) -> Iterator[Contender]:
    """A child that answers a line of input, the test's name, with a line of output, its rate."""
    with ChildProcess(command, takes_input=True) as child:
        prefer(child.pid)
        answers = child.lines()

        def measure(test: str) -> float:
            try:
                child.write_line(test)
                return float(next(answers, ""))
            except (OSError, ValueError) as error:
                raise CalibrationError(f"{title} gave no result for {test}; is memory short?") from error

        yield Contender(title, tests, measure)


def ours(size: int) -> tuple[str, dict[str, str], list[str]]:
    """Title, tests and command of our own kernels."""
    tests = dict.fromkeys(("non-temporal", "normal", "read", "f32", "f64"), "")
    return "roofline-agent", tests, [sys.executable, "-m", "roofline_agent.calibrate.compare", str(size)]


def compiled_stream(folder: Path, size: int) -> tuple[str, dict[str, str], list[str]]:
    """STREAM's triad by the system's compiler. Raises CalibrationError where there is none that can."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CalibrationError("no compiled STREAM: there is no C compiler (cc) on this machine")
    program = folder / "stream"
    fast = ["-O3", "-march=native", "-fopenmp"]
    command = [compiler, *fast, "-o", str(program), str(_HERE / "stream.c")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CalibrationError(f"no compiled STREAM: {compiler} did not work ({error})") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise CalibrationError(f"no compiled STREAM: {' '.join(command[:4])} failed: {reason[:200]}")
    name = f"STREAM triad by {Path(compiler).name} {' '.join(fast)}"
    tests = {"normal": f"{name}, normal stores"}
    if platform.machine() == "x86_64":
        tests["non-temporal"] = f"{name}, non-temporal stores (intrinsics)"
    return "compiled STREAM", tests, [str(program), str(size)]


def numpy_gemm(python: str | None) -> tuple[str, dict[str, str], list[str]]:
    """numpy's products in the given Python, else this one, else the system's. Raises CalibrationError."""
    candidates = [python] if python else [sys.executable, shutil.which("python3") or ""]
    for candidate in filter(None, candidates):
        version = _numpy_version(candidate)
        if version:
            tests = {
                "f32": f"numpy {version} matrix product, FP32",
                "f64": f"numpy {version} matrix product, FP64",
            }
            return "numpy GEMM", tests, [candidate, str(_HERE / "gemm.py")]
    raise CalibrationError(f"no GEMM: {' and '.join(filter(None, candidates))} have no numpy; give --python")


def _numpy_version(python: str) -> str:
    code = "import numpy; print(numpy.__version__)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def likwid(size: int, cpus: int, flags: frozenset[str]) -> Contender:
    """likwid-bench, a process for each test. Raises CalibrationError where it is not installed."""
    path = shutil.which("likwid-bench")
    if path is None:
        raise CalibrationError("no likwid-bench: it is not installed (Debian: apt install likwid)")
    chosen = likwid_tests(flags)
    tests = {test: f"likwid-bench {name}" for test, name in chosen.items()}

    def measure(test: str) -> float:
        return _run_likwid(str(path), chosen[test], size, cpus)

    return Contender("likwid-bench", tests, measure)


def likwid_tests(flags: frozenset[str]) -> dict[str, str]:
    """The tests of likwid-bench that are like ours on a CPU with these flags."""
    vector = "avx_fma" if {"avx", "fma"} <= flags else "avx" if "avx" in flags else "sse"
    load = "avx" if "avx" in flags else "sse"
    widest = "avx512_fma" if "avx512f" in flags else vector
    return {
        "non-temporal": f"stream_mem_{vector}",
        "normal": f"stream_{vector}",
        "read": f"load_{load}",
        "f32": f"peakflops_sp_{widest}",
        "f64": f"peakflops_{widest}",
    }


def _run_likwid(path: str, test: str, size: int, cpus: int) -> float:
    # Peak FLOP/s need data in the first level, 16 KiB a thread; iterations for about a tenth of a second.
    peak = test.startswith("peakflops")
    work = f"N:{16 * cpus}kB:{cpus}" if peak else f"N:{size // 10**6}MB:{cpus}"
    command = [path, "-t", test, "-W", work, "-i", "50000" if peak else "5"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as child:
        prefer(child.pid)
        try:
            printed, _ = child.communicate(timeout=_LIKWID_S)
        except subprocess.TimeoutExpired as error:
            raise CalibrationError(f"likwid-bench {test} did not end: {error}") from error
        finally:
            child.kill()
    found = (_MFLOPS if peak else _MBYTES).search(printed)
    if found is None:
        reason = (printed.strip().splitlines() or ["it gave no reason"])[-1]
        raise CalibrationError(f"likwid-bench {test} gave no result: {reason[:200]}")
    return float(found[1]) * 1e6
