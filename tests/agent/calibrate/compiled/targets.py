"""The processors that kernels.c is tried for: this one, and Arm's by cross-compiler and emulator."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from roofline_agent.calibrate.compiled.compiler import FLAGS, GCC_FLAGS, SOURCE

CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


class Target(NamedTuple):
    name: str
    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...] = ()


HERE = Target("here", "gcc", ("-march=native",))
ARM = (
    Target("armv8", CROSS, (), (EMULATOR,)),
    Target("armv8.2-fp16-bf16", CROSS, ("-march=armv8.2-a+fp16+bf16",), (EMULATOR, "-cpu", "max")),
    *(
        Target(
            f"sve-{bits}",
            CROSS,
            ("-march=armv8.2-a+fp16+bf16+sve", f"-msve-vector-bits={bits}"),
            (EMULATOR, "-cpu", f"max,sve{bits}=on,sve-default-vector-length={bits // 8}"),
        )
        for bits in (256, 512)
    ),
)


class Program:
    """check_kernels.c, compiled for a target."""

    def __init__(self, target: Target, path: Path) -> None:
        self.target, self.path = target, path

    def __call__(self, *arguments: object) -> list[str]:
        """The words that it prints."""
        command = [*self.target.emulator, str(self.path), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines() if arguments == ("list",) else done.stdout.split()


def build(target: Target, folder: Path) -> Program:
    """Skips the test where the target's tools are missing."""
    for tool in (target.compiler, *target.emulator[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not target.emulator and platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"kernels.c is not tried on {platform.machine()}")
    program = folder / "check"
    source = Path(__file__).with_name("check_kernels.c")
    flags = [
        "-static",
        "-Wall",
        "-Wextra",
        "-Werror",
        *FLAGS,
        *GCC_FLAGS,
        *target.flags,
        "-I",
        str(SOURCE.parent),
    ]
    subprocess.run([target.compiler, *flags, str(source), "-o", str(program)], check=True, timeout=120)
    return Program(target, program)
