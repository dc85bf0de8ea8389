"""AMX: bytes on every machine, products where the CPU has tiles."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys

import pytest
from roofline_agent.calibrate.assembled import tiles
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware

# In a process of its own: the permission is for good, and signal handlers then need larger stacks.
MULTIPLY = """
import json, struct, sys
from contextlib import closing
from roofline_agent.calibrate.assembled import tiles
from roofline_agent.calibrate.memory import Buffer, Executable
tiles.ask_permission()
kernel = tiles.tile_kernel()
def half(x): return struct.pack("<f", x)[2:]
left, right = json.loads(sys.argv[1])
# The right tile holds pairs of rows, one beside the other.
content = tiles.configuration() + b"".join(half(x) for row in left for x in row)
content += b"".join(half(right[2 * p + r][j]) for p in range(16) for j in range(16) for r in (0, 1))
content += struct.pack(f"<{kernel.chains * 256}f", *[1.0] * (kernel.chains * 256))
with closing(Executable(kernel.code)) as run, closing(Buffer(len(content))) as memory:
    memory.write(content)
    run(3, memory.address, memory.address + tiles.CONFIG_BYTES + 2 * tiles.TILE_BYTES)
    sys.stdout.buffer.write(memory.read(len(content))[64 + 2048:])
"""


def test_configuration_says_eight_tiles_of_16_rows_by_64_bytes() -> None:
    content = tiles.configuration()
    assert len(content) == 64
    assert content[:2] == b"\x01\x00"
    assert struct.unpack_from("<8H", content, 16) == (64,) * 8
    assert content[48:56] == b"\x10" * 8


def test_product_of_tiles_counts_16384_flop() -> None:
    kernel = tiles.tile_kernel()
    assert kernel.flops_per_iteration == 16384 * kernel.chains * kernel.updates_per_iteration


@pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump")
def test_disassembler_reads_the_products(tmp_path: pytest.TempPathFactory) -> None:
    path = f"{tmp_path}/code.bin"
    with open(path, "wb") as file:
        file.write(tiles.tile_kernel().code)
    command = ["objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", path]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for wanted in (
        "ldtilecfg [rsi+0x0]",
        "tileloadd tmm7,[rsi+rcx*1+0x440]",
        "tdpbf16ps tmm5,tmm6,tmm7",
        "tilestored [rdx+rcx*1+0x1400],tmm5",
        "tilerelease",
    ):
        assert wanted in listing


def test_tiles_are_multiplied() -> None:
    try:
        missing = tiles.NEEDED_FLAGS - this_hardware().flags
    except CalibrationError as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")
    left = [[(i + k) % 3 for k in range(32)] for i in range(16)]
    right = [[(k * 2 + j) % 5 for j in range(16)] for k in range(32)]
    command = [sys.executable, "-c", MULTIPLY, json.dumps([left, right])]
    sums = subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE).stdout
    kernel = tiles.tile_kernel()
    times = 3 * kernel.updates_per_iteration
    cells = [(i, j) for i in range(16) for j in range(16)]
    product = [1.0 + times * sum(left[i][k] * right[k][j] for k in range(32)) for i, j in cells]
    assert list(struct.unpack(f"<{kernel.chains * 256}f", sums)) == product * kernel.chains
