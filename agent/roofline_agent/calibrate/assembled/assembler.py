"""The bytes of the few x86-64 instructions that the calibration kernels are made of.

Each function returns one instruction, except `repeat`, which wraps a loop around some; nothing here runs
them. Opcodes are quoted in the notation of the Intel Software Developer's Manual, volume 2. General
registers are numbered as there (rcx 1, rdx 2, rsi 6, rdi 7, r8 8, r9 9), vector registers 0 to 15, or to 31
under EVEX.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from roofline_agent.calibrate.kernels import Form

RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11 = 0, 1, 2, 6, 7, 8, 9, 10, 11

RET = b"\xc3"  # C3
VZEROUPPER = b"\xc5\xf8\x77"  # VEX.128.0F.WIG 77
SFENCE = b"\x0f\xae\xf8"  # NP 0F AE F8
LFENCE = b"\x0f\xae\xe8"  # NP 0F AE E8
RDTSC = b"\x0f\x31"  # 0F 31
NOP = b"\x90"  # 90

# What `repeat` puts before the body: TEST (3 bytes) and JZ rel32 (6 bytes).
LOOP_HEAD_BYTES = 9

_MAP_0F, _MAP_0F38, _MAP_5, _MAP_6 = 1, 2, 5, 6
_ADD, _MULTIPLY = 0x58, 0x59
# The mandatory prefixes, in the order of the two bits `pp` that stand for them in VEX and EVEX.
_PREFIXES = (b"", b"\x66", b"\xf3", b"\xf2")
_PP_NONE, _PP_66, _PP_F3, _PP_F2 = range(4)
_PACKED_PP = {"f32": _PP_NONE, "f64": _PP_66, "f16": _PP_NONE, "bf16": _PP_NONE}
_SCALAR_PP = {"f32": _PP_F3, "f64": _PP_F2, "f16": _PP_F3}
_LENGTHS = {128: 0, 256: 1, 512: 2}  # L'L of EVEX; a scalar's is ignored
# rm = 100b announces a SIB byte, which no kernel needs.
_RM_SIB = 4


def is_evex(form: Form) -> bool:
    """Whether its instructions are encoded with EVEX, and have 32 registers."""
    return form.instructions.startswith("avx512")


class Operand(NamedTuple):
    """The memory at a general register plus a displacement in bytes."""

    base: int
    displacement: int = 0


def load(form: Form, register: int, memory: Operand) -> bytes:
    """MOVUPS/MOVUPD/MOVSS/MOVSD register, memory: 0F 10 /r. Needs no alignment."""
    return _instruction(form, 0x10, register, 0, memory)


def store(form: Form, memory: Operand, register: int) -> bytes:
    """MOVUPS/MOVUPD/MOVSS/MOVSD memory, register: 0F 11 /r. Needs no alignment."""
    return _instruction(form, 0x11, register, 0, memory)


def store_streaming(form: Form, memory: Operand, register: int) -> bytes:
    """MOVNTPS/MOVNTPD memory, register: 0F 2B /r, past the caches. Needs memory aligned to the vector."""
    if form.is_scalar:
        raise ValueError("there is no non-temporal store of a scalar before SSE4a")
    return _instruction(form, 0x2B, register, 0, memory)


def add(form: Form, target: int, first: int, second: int | Operand) -> bytes:
    """ADDPS/PD/SS/SD: 0F 58 /r, ADDPH/SH: EVEX.MAP5.W0 58 /r; target = first + second.

    SSE2 needs target = first, and memory aligned to the vector.
    """
    return _three_operands(form, _ADD, target, first, second)


def multiply(form: Form, target: int, first: int, second: int) -> bytes:
    """MULPS/PD/SS/SD: 0F 59 /r, MULPH/SH: EVEX.MAP5.W0 59 /r; target = first * second, as for `add`."""
    return _three_operands(form, _MULTIPLY, target, first, second)


def fused_multiply_add(form: Form, target: int, first: int, second: int) -> bytes:
    """VFMADD231: (E)VEX.66.0F38.W(0 f32, 1 f64), f16 EVEX.66.MAP6.W0; B8 /r, B9 for scalars.

    target += first * second, rounded once.
    """
    opcode = 0xB9 if form.is_scalar else 0xB8
    opmap = _MAP_6 if form.precision == "f16" else _MAP_0F38
    encode = _evex if is_evex(form) else _vex
    return encode(form, opmap, _PP_66, int(form.precision == "f64"), opcode, target, first, second)


def scale_and_add(form: Form, target: int, factor: int, addend: Operand) -> bytes:
    """VFMADD213PS/PD: (E)VEX.66.0F38.W(0 f32, 1 f64) A8 /r.

    target = target * factor + addend, rounded once.
    """
    encode = _evex if is_evex(form) else _vex
    return encode(form, _MAP_0F38, _PP_66, int(form.precision == "f64"), 0xA8, target, factor, addend)


def dot_bf16(form: Form, target: int, first: int, second: int) -> bytes:
    """VDPBF16PS: EVEX.F3.0F38.W0 52 /r; each f32 of target += the two products of a pair of bf16."""
    return _evex(form, _MAP_0F38, _PP_F3, 0, 0x52, target, first, second)


def copy(target: int, source: int) -> bytes:
    """MOVAPS target, source: NP 0F 28 /r, all 128 bits; a byte shorter than MOVAPD, with the same effect."""
    return _legacy(_PP_NONE, 0x28, target, source)


def prefetch(memory: Operand) -> bytes:
    """PREFETCHT0 m8: 0F 18 /1. Never faults, wherever the memory."""
    return _legacy(_PP_NONE, 0x18, 1, memory)


def add_immediate(register: int, value: int) -> bytes:
    """ADD r64, imm32: REX.W + 81 /0 id."""
    return bytes((_rex_w(0, register), 0x81, 0xC0 | register & 7)) + struct.pack("<i", value)


def add_register(target: int, source: int) -> bytes:
    """ADD r64, r64: REX.W + 03 /r. No CPU does it while renaming, as some do small constants."""
    return _general(0x03, target, source)


def subtract(target: int, source: int) -> bytes:
    """SUB r64, r64: REX.W + 2B /r."""
    return _general(0x2B, target, source)


def move(target: int, source: int | Operand) -> bytes:
    """MOV r64, r/m64: REX.W + 8B /r."""
    return _general(0x8B, target, source)


def move_to_memory(memory: Operand, source: int) -> bytes:
    """MOV m64, r64: REX.W + 89 /r."""
    return _general(0x89, source, memory)


def move_immediate(register: int, value: int) -> bytes:
    """MOV r64, imm32: REX.W + C7 /0 id."""
    return bytes((_rex_w(0, register), 0xC7, 0xC0 | register & 7)) + struct.pack("<i", value)


def store_time_stamp(memory: Operand) -> bytes:
    """The time stamp counter, read once all before is done. Overwrites rax and rdx.

    LFENCE; RDTSC; SHL rdx, 32: REX.W + C1 /4 ib; OR rax, rdx: REX.W + 0B /r; MOV.
    """
    shift = bytes((_rex_w(0, RDX), 0xC1, 0xE0 | RDX, 32))
    return LFENCE + RDTSC + shift + _general(0x0B, RAX, RDX) + move_to_memory(memory, RAX)


def repeat(counter: int, body: bytes) -> bytes:
    """The body `counter` times (a 64-bit register, counted down to 0); not once if it is 0 already.

    TEST r64, r64: REX.W + 85 /r; DEC r64: REX.W + FF /1; JZ, JNZ rel32: 0F 84 cd, 0F 85 cd.
    """
    test = bytes((_rex_w(counter, counter), 0x85, 0xC0 | (counter & 7) << 3 | counter & 7))
    decrement = bytes((_rex_w(0, counter), 0xFF, 0xC8 | counter & 7))
    again = body + decrement
    loop = again + b"\x0f\x85" + struct.pack("<i", -(len(again) + 6))
    return test + b"\x0f\x84" + struct.pack("<i", len(loop)) + loop


def _three_operands(form: Form, opcode: int, target: int, first: int, second: int | Operand) -> bytes:
    if form.instructions != "sse2":
        return _instruction(form, opcode, target, first, second)
    if target != first:
        raise ValueError("an SSE2 instruction overwrites its first operand")
    return _instruction(form, opcode, target, 0, second)


def _instruction(form: Form, opcode: int, reg: int, vvvv: int, rm: int | Operand) -> bytes:
    """An instruction of the map 0F whose mandatory prefix gives the type of its numbers."""
    pp = _SCALAR_PP[form.precision] if form.is_scalar else _PACKED_PP[form.precision]
    if form.instructions == "sse2":
        return _legacy(pp, opcode, reg, rm)
    if is_evex(form):
        # A packed move needs no instruction of its own for f16: it moves bits.
        half = form.precision == "f16" and (form.is_scalar or opcode in (_ADD, _MULTIPLY))
        w = int(form.precision == "f64")
        return _evex(form, _MAP_5 if half else _MAP_0F, pp, w, opcode, reg, vvvv, rm)
    return _vex(form, _MAP_0F, pp, 0, opcode, reg, vvvv, rm)


def _general(opcode: int, reg: int, rm: int | Operand) -> bytes:
    """REX.W + opcode /r, on general registers."""
    return bytes((_rex_w(reg, _number(rm)), opcode)) + _modrm(reg, rm)


def _legacy(pp: int, opcode: int, reg: int, rm: int | Operand) -> bytes:
    """[66|F3|F2] [REX] 0F opcode /r."""
    rex = 0x40 | reg >> 3 << 2 | _number(rm) >> 3
    return _PREFIXES[pp] + (bytes((rex,)) if rex != 0x40 else b"") + bytes((0x0F, opcode)) + _modrm(reg, rm)


def _vex(
    form: Form, opmap: int, pp: int, w: int, opcode: int, reg: int, vvvv: int, rm: int | Operand
) -> bytes:
    """C4, then ~R ~X ~B mmmmm, then W ~vvvv L pp. The shorter form C5 has no map 0F38."""
    first = _absent(reg, 3) << 7 | 1 << 6 | _absent(_number(rm), 3) << 5 | opmap
    second = w << 7 | (~vvvv & 15) << 3 | int(form.width == 256) << 2 | pp
    return bytes((0xC4, first, second, opcode)) + _modrm(reg, rm)


def _evex(
    form: Form, opmap: int, pp: int, w: int, opcode: int, reg: int, vvvv: int, rm: int | Operand
) -> bytes:
    """62, then ~R ~X ~B ~R' 0 mmm, then W ~vvvv 1 pp, then z L'L b ~V' aaa; no mask, no broadcast.

    A register `rm` has its bit 4 in X; a base register has none, and X then belongs to the absent index.
    """
    number = _number(rm)
    first = _absent(reg, 3) << 7 | _absent(number, 4) << 6 | _absent(number, 3) << 5 | _absent(reg, 4) << 4
    second = w << 7 | (~vvvv & 15) << 3 | 1 << 2 | pp
    third = _LENGTHS.get(form.width, 0) << 5 | _absent(vvvv, 4) << 3
    return bytes((0x62, first | opmap, second, third, opcode)) + _modrm(reg, rm)


def _modrm(reg: int, rm: int | Operand) -> bytes:
    """ModRM for a register, or for [base + disp32]; EVEX would scale the shorter disp8."""
    if isinstance(rm, int):
        return bytes((0xC0 | (reg & 7) << 3 | rm & 7,))
    if rm.base & 7 == _RM_SIB:
        raise ValueError("rsp and r12 as a base need a SIB byte")
    return bytes((0x80 | (reg & 7) << 3 | rm.base & 7,)) + struct.pack("<i", rm.displacement)


def _absent(register: int, bit: int) -> int:
    """1 if the register's number lacks this bit: VEX and EVEX hold such bits inverted."""
    return ~register >> bit & 1


def _number(rm: int | Operand) -> int:
    return rm.base if isinstance(rm, Operand) else rm


def _rex_w(reg: int, rm: int) -> int:
    return 0x48 | reg >> 3 << 2 | rm >> 3
