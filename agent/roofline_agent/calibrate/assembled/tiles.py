"""Intel AMX: products of whole tiles of bf16, and the permission that a process needs for them.

A tile is 16 rows of 64 bytes; one TDPBF16PS multiplies 16 x 32 by 32 x 16 numbers: 16384 FLOP.
"""

from __future__ import annotations

import ctypes
import os
import struct

from roofline_agent.calibrate.assembled import assembler, peaks
from roofline_agent.calibrate.assembled.assembler import RCX, RDI, RDX, RSI
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.kernels import Form, PeakKernel, X, Y, bfloat

NEEDED_FLAGS = frozenset({"amx_tile", "amx_bf16"})
TILE_BYTES = 1024
FLOPS_PER_PRODUCT = 2 * 16 * 16 * 32
# A product takes 52 cycles and one starts every 16, so 4 chains hide the latency; 8 registers leave 6.
CHAINS = 6
_UNROLL = 24
_LEFT, _RIGHT = 6, 7
CONFIG_BYTES = 64

# arch_prctl of Documentation/arch/x86/xstate.rst: a process asks before its first tile is touched.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def ask_permission() -> None:
    """For this process and its threads, for good. Raises CalibrationError where the system refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA):
        reason = os.strerror(ctypes.get_errno())
        raise CalibrationError(f"the system does not let this process use AMX tiles ({reason})")


def configuration() -> bytes:
    """Palette 1, all eight tiles of 16 rows by 64 bytes (Intel SDM volume 1, table 18-1)."""
    return struct.pack("<BB14x8H16x8B8x", 1, 0, *[64] * 8, *[16] * 8)


def tile_kernel() -> PeakKernel:
    """f(iterations, operands, sums): each sum (16 x 16 f32) += left x right, several times an iteration.

    `operands` holds the configuration, then both tiles of bf16; `sums` a tile for each chain.
    """
    head = bytes((0xC4, 0xE2, 0x78, 0x49, 0x80 | RSI)) + struct.pack("<i", 0)  # LDTILECFG: NP 49 /0
    head += assembler.move_immediate(RCX, 64)
    head += _tile(_LOAD, _LEFT, RSI, CONFIG_BYTES) + _tile(_LOAD, _RIGHT, RSI, CONFIG_BYTES + TILE_BYTES)
    head += peaks.join(_tile(_LOAD, chain, RDX, chain * TILE_BYTES) for chain in range(CHAINS))
    body = peaks.join(_product(i % CHAINS) for i in range(_UNROLL))
    code = peaks.aligned(head) + assembler.repeat(RDI, body)
    code += peaks.join(_tile(_STORE, chain, RDX, chain * TILE_BYTES) for chain in range(CHAINS))
    code += _RELEASE + assembler.RET
    return PeakKernel(
        form=Form("amx", 0, "bf16"),
        name="amx",
        operation="amx",
        code=code,
        chains=CHAINS,
        updates_per_iteration=_UNROLL // CHAINS,
        flops_per_iteration=_UNROLL * FLOPS_PER_PRODUCT,
        operands=configuration() + bfloat(X) * 512 + bfloat(Y) * 512,
        sums_bytes=CHAINS * TILE_BYTES,
        text=(
            f"AMX products of bf16 tiles added to f32, {CHAINS} independent sums, {FLOPS_PER_PRODUCT} FLOP a "
            "product"
        ),
    )


# All are VEX.128.0F38.W0; pp distinguishes those that share an opcode.
_LOAD, _STORE = 3, 2  # TILELOADD: F2 4B, TILESTORED: F3 4B
_RELEASE = bytes((0xC4, 0xE2, 0x78, 0x49, 0xC0))  # TILERELEASE: NP 49 C0


def _tile(pp: int, tile: int, base: int, displacement: int) -> bytes:
    """TILELOADD or TILESTORED of rows that lie rcx bytes apart: ModRM and SIB [base + rcx + disp32]."""
    sib = RCX << 3 | base
    return bytes((0xC4, 0xE2, 0x78 | pp, 0x4B, 0x84 | tile << 3, sib)) + struct.pack("<i", displacement)


def _product(chain: int) -> bytes:
    """TDPBF16PS: F3 5C /r, the tile `chain` += left x right."""
    return bytes((0xC4, 0xE2, (~_RIGHT & 15) << 3 | 2, 0x5C, 0xC0 | chain << 3 | _LEFT))
