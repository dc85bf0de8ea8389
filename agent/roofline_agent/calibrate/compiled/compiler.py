"""Makes a library of `kernels.c` with the node's own C compiler, for this CPU."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.errors import CalibrationError

SOURCE = Path(__file__).with_name("kernels.c")
COMPILERS = ("cc", "gcc", "clang")
# The vectors are those that the code asks for, a product is fused with its sum where the code lets it, and a
# copy is the loop as written.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast")
GCC_FLAGS = (
    "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize",
    "-fno-tree-loop-distribute-patterns",
    # Else gcc 12 moves sums to general registers and back.
    "-fno-tree-coalesce-vars",
)
CLANG_FLAGS = ("-fno-vectorize", "-fno-slp-vectorize", "-fno-builtin")
_COMPILE_S = 120.0
_PR_SVE_GET_VL, _SVE_VL_BYTES = 51, 0xFFFF  # linux/prctl.h


class CompiledLibrary(NamedTuple):
    """A compiled library, and by what it was compiled."""

    path: Path
    compiler: str  # "gcc 12.2.0 -O3 -mcpu=native"


def compile_library(folder: Path) -> CompiledLibrary:
    """A library in the folder. Raises CalibrationError where there is no compiler, or it fails."""
    path = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if path is None:
        raise CalibrationError(
            f"no ceilings measured: on {platform.machine()} the measuring code is C, and no C compiler "
            f"({', '.join(COMPILERS)}) is on PATH; install one (Debian: apt install gcc libc6-dev, Red Hat: "
            "dnf install gcc) or import a result of STREAM, likwid-bench or ERT instead (roofline-agent "
            "import)"
        )
    name = compiler_name(path)
    library = folder / "kernels.so"
    reason = ""
    # A compiler may be older than the CPU, and not know it.
    for target in (*native_flags(platform.machine(), sve_bits()), []):
        own = CLANG_FLAGS if name.startswith("clang") else GCC_FLAGS
        command = [path, *FLAGS, *own, *target, "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CalibrationError(f"no ceilings measured: {path} did not work ({error})") from error
        if done.returncode == 0:
            return CompiledLibrary(library, " ".join((name, FLAGS[0], *target)))
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    raise CalibrationError(
        f"no ceilings measured: {path} cannot compile the measuring code ({reason[:200]}); are the headers "
        "of the C library installed (Debian: apt install libc6-dev)?"
    )


def native_flags(architecture: str, sve_vector_bits: int) -> list[list[str]]:
    """Flags with which a compiler uses all that this CPU has; the first that it understands count."""
    if architecture != "aarch64":
        return [["-march=native"], ["-mcpu=native"]]
    if sve_vector_bits > 128:
        # Only vectors of a known length can be kept in registers by name.
        return [["-mcpu=native", f"-msve-vector-bits={sve_vector_bits}"], ["-mcpu=native"]]
    return [["-mcpu=native"]]


def sve_bits() -> int:
    """The length of this process's SVE vectors; 0: the CPU has none."""
    if platform.machine() != "aarch64":
        return 0
    answer = int(ctypes.CDLL(None).prctl(_PR_SVE_GET_VL, 0, 0, 0, 0))
    return 8 * (answer & _SVE_VL_BYTES) if answer > 0 else 0


def compiler_name(path: str) -> str:
    """Which compiler it is, and its version: "gcc 12.2.0"."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_COMPILE_S)
    except (OSError, subprocess.TimeoutExpired):
        return Path(path).name
    line = (done.stdout.splitlines() or [""])[0]
    kind = Path(path).name
    if "clang" in line:
        kind = "clang"
    elif "Free Software Foundation" in done.stdout:
        kind = "gcc"
    versions = re.findall(r"\d+\.\d+(?:\.\d+)?", line)
    return f"{kind} {versions[-1]}" if versions else kind
