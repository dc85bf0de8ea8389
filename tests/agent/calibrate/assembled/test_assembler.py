"""Each encoding against golden bytes, and these against a real disassembler where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from roofline_agent.calibrate.assembled import assembler as asm
from roofline_agent.calibrate.assembled.assembler import (
    R8,
    R9,
    R10,
    R11,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Operand,
)
from roofline_agent.calibrate.kernels import Form

SSE_F32, SSE_F64 = Form("sse2", 128, "f32"), Form("sse2", 128, "f64")
SSE_SS, SSE_SD = Form("sse2", 32, "f32"), Form("sse2", 64, "f64")
AVX_F32, AVX_F64 = Form("avx", 256, "f32"), Form("avx", 256, "f64")
FMA_F32, FMA_F64 = Form("fma", 256, "f32"), Form("fma", 128, "f64")
FMA_SS, FMA_SD = Form("fma", 32, "f32"), Form("fma", 64, "f64")
EVEX_F32, EVEX_F64 = Form("avx512f", 512, "f32"), Form("avx512f", 512, "f64")

AHEAD = Operand(RCX, 64)
EVEX_256 = Form("avx512f", 256, "f64")
HALF, HALF_256, HALF_SH = (Form("avx512_fp16", width, "f16") for width in (512, 256, 16))
DOT_512, DOT_128 = Form("avx512_bf16", 512, "bf16"), Form("avx512_bf16", 128, "bf16")

# What the code makes, its bytes as GNU as writes them (told to use VEX3 and disp32), and what they mean.
GOLDEN = [
    (asm.load(SSE_F32, 3, Operand(RSI)), "0f 10 9e 00000000", "movups xmm3,[rsi+0x0]"),
    (asm.load(SSE_F64, 9, Operand(R8, 16)), "66 45 0f 10 88 10000000", "movupd xmm9,[r8+0x10]"),
    (asm.load(SSE_SS, 1, Operand(RDX)), "f3 0f 10 8a 00000000", "movss xmm1,[rdx+0x0]"),
    (asm.load(SSE_SD, 15, Operand(R9)), "f2 45 0f 10 b9 00000000", "movsd xmm15,[r9+0x0]"),
    (asm.store(SSE_SD, Operand(RDX, 8), 2), "f2 0f 11 92 08000000", "movsd [rdx+0x8],xmm2"),
    (asm.store_streaming(SSE_F64, Operand(RDX), 8), "66 44 0f 2b 82 00000000", "movntpd [rdx+0x0],xmm8"),
    (asm.copy(14, 12), "45 0f 28 f4", "movaps xmm14,xmm12"),
    (asm.multiply(SSE_F32, 14, 14, 13), "45 0f 59 f5", "mulps xmm14,xmm13"),
    (asm.add(SSE_F64, 2, 2, 14), "66 41 0f 58 d6", "addpd xmm2,xmm14"),
    (asm.multiply(SSE_SS, 1, 1, 2), "f3 0f 59 ca", "mulss xmm1,xmm2"),
    (asm.add(AVX_F32, 2, 2, 14), "c4 c1 6c 58 d6", "vaddps ymm2,ymm2,ymm14"),
    (asm.multiply(AVX_F64, 14, 12, 13), "c4 41 1d 59 f5", "vmulpd ymm14,ymm12,ymm13"),
    (asm.load(AVX_F32, 12, Operand(RSI, 32)), "c4 61 7c 10 a6 20000000", "vmovups ymm12,[rsi+0x20]"),
    (asm.store_streaming(AVX_F64, Operand(RDX, 9), 3), "c4 e1 7d 2b 9a 09000000", "vmovntpd [rdx+0x9],ymm3"),
    (asm.add(FMA_SD, 8, 8, 9), "c4 41 3b 58 c1", "vaddsd xmm8,xmm8,xmm9"),
    (asm.fused_multiply_add(FMA_F32, 11, 12, 13), "c4 42 1d b8 dd", "vfmadd231ps ymm11,ymm12,ymm13"),
    (asm.fused_multiply_add(FMA_F64, 0, 12, 13), "c4 c2 99 b8 c5", "vfmadd231pd xmm0,xmm12,xmm13"),
    (asm.fused_multiply_add(FMA_SS, 4, 12, 13), "c4 c2 19 b9 e5", "vfmadd231ss xmm4,xmm12,xmm13"),
    (asm.fused_multiply_add(FMA_SD, 4, 12, 13), "c4 c2 99 b9 e5", "vfmadd231sd xmm4,xmm12,xmm13"),
    (asm.load(EVEX_F32, 24, Operand(RSI)), "62 61 7c 48 10 86 00000000", "vmovups zmm24,[rsi+0x0]"),
    (asm.load(EVEX_F64, 15, Operand(R9, 64)), "62 51 fd 48 10 b9 40000000", "vmovupd zmm15,[r9+0x40]"),
    (asm.store(EVEX_F64, Operand(RDX, 1472), 23), "62 e1 fd 48 11 ba c0050000", "vmovupd [rdx+0x5c0],zmm23"),
    (asm.store_streaming(EVEX_F64, Operand(RDX), 1), "62 f1 fd 48 2b 8a 00000000", "vmovntpd [rdx+0x0],zmm1"),
    (asm.add(EVEX_F64, 7, 7, 9), "62 d1 c5 48 58 f9", "vaddpd zmm7,zmm7,zmm9"),
    (asm.fused_multiply_add(EVEX_F32, 23, 24, 25), "62 82 3d 40 b8 f9", "vfmadd231ps zmm23,zmm24,zmm25"),
    (asm.fused_multiply_add(EVEX_F64, 12, 24, 25), "62 12 bd 40 b8 e1", "vfmadd231pd zmm12,zmm24,zmm25"),
    (asm.fused_multiply_add(EVEX_F64, 0, 4, 15), "62 d2 dd 48 b8 c7", "vfmadd231pd zmm0,zmm4,zmm15"),
    (asm.scale_and_add(FMA_F32, 3, 7, AHEAD), "c4 e2 45 a8 99 40000000", "vfmadd213ps ymm3,ymm7,[rcx+0x40]"),
    (asm.scale_and_add(EVEX_F64, 3, 7, AHEAD), "62f2c548a89940000000", "vfmadd213pd zmm3,zmm7,[rcx+0x40]"),
    (asm.add(AVX_F64, 11, 11, Operand(RDX, 32)), "c4 61 25 58 9a 20000000", "vaddpd ymm11,ymm11,[rdx+0x20]"),
    (asm.add(EVEX_256, 7, 7, 9), "62 d1 c5 28 58 f9", "vaddpd ymm7,ymm7,ymm9"),
    (asm.load(HALF_SH, 20, Operand(RSI, 64)), "62 e5 7e 08 10 a6 40000000", "vmovsh xmm20,[rsi+0x40]"),
    (asm.store(HALF_SH, Operand(RDX), 3), "62 f5 7e 08 11 9a 00000000", "vmovsh [rdx+0x0],xmm3"),
    (asm.load(HALF_256, 20, Operand(RSI)), "62 e1 7c 28 10 a6 00000000", "vmovups ymm20,[rsi+0x0]"),
    (asm.add(HALF_SH, 1, 2, 30), "62 95 6e 08 58 ce", "vaddsh xmm1,xmm2,xmm30"),
    (asm.multiply(HALF_256, 1, 2, 30), "62 95 6c 28 59 ce", "vmulph ymm1,ymm2,ymm30"),
    (asm.fused_multiply_add(HALF_SH, 1, 2, 3), "62 f6 6d 08 b9 cb", "vfmadd231sh xmm1,xmm2,xmm3"),
    (asm.fused_multiply_add(HALF, 1, 20, 3), "62 f6 5d 40 b8 cb", "vfmadd231ph zmm1,zmm20,zmm3"),
    (asm.dot_bf16(DOT_128, 1, 2, 3), "62 f2 6e 08 52 cb", "vdpbf16ps xmm1,xmm2,xmm3"),
    (asm.dot_bf16(DOT_512, 1, 2, 30), "62 92 6e 48 52 ce", "vdpbf16ps zmm1,zmm2,zmm30"),
    (asm.add_register(RSI, RCX), "48 03 f1", "add rsi,rcx"),
    (asm.subtract(R8, R10), "4d 2b c2", "sub r8,r10"),
    (asm.move(R11, RSI), "4c 8b de", "mov r11,rsi"),
    (asm.move(R10, Operand(R9, 64)), "4d 8b 91 40000000", "mov r10,[r9+0x40]"),
    (asm.move_to_memory(Operand(R9, 72), RAX), "49 89 81 48000000", "mov [r9+0x48],rax"),
    (asm.move_immediate(R11, 800), "49 c7 c3 20030000", "mov r11,0x320"),
    (asm.prefetch(Operand(RDX, 2048)), "0f 18 8a 00080000", "prefetcht0 [rdx+0x800]"),
    (asm.add_immediate(RCX, 256), "48 81 c1 00010000", "add rcx,0x100"),
    (asm.add_immediate(R8, 8), "49 81 c0 08000000", "add r8,0x8"),
    (asm.VZEROUPPER, "c5 f8 77", "vzeroupper"),
    (asm.SFENCE, "0f ae f8", "sfence"),
    (asm.RET, "c3", "ret"),
]  # fmt: skip

needs_disassembler = pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump")
needs_assembler = pytest.mark.skipif(
    not (shutil.which("as") and shutil.which("objcopy")), reason="no as and objcopy"
)


def disassemble(code: bytes, tmp_path: Path) -> list[str]:
    path = tmp_path / "code.bin"
    path.write_bytes(code)
    command = ["objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    columns = [line.split("\t") for line in listing.splitlines() if re.match(r" +[0-9a-f]+:\t", line)]
    # The sizes of memory operands ("ZMMWORD PTR ") repeat what the other operand says; "{evex}" the bytes.
    return [re.sub(r"\w+ PTR |\{evex\} ", "", re.sub(r"\s+", " ", parts[2])).strip() for parts in columns]


def assemble(lines: Iterable[str], tmp_path: Path) -> bytes:
    source, thing, raw = tmp_path / "a.s", tmp_path / "a.o", tmp_path / "a.bin"
    source.write_text(".intel_syntax noprefix\n" + "\n".join(lines) + "\n")
    subprocess.run(["as", "-o", str(thing), str(source)], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", str(thing), str(raw)], check=True)
    return raw.read_bytes()


@pytest.mark.parametrize(("code", "golden", "meaning"), GOLDEN, ids=[text for _, _, text in GOLDEN])
def test_instruction_has_its_golden_bytes(code: bytes, golden: str, meaning: str) -> None:
    assert code == bytes.fromhex(golden)


@needs_disassembler
def test_disassembler_reads_what_was_meant(tmp_path: Path) -> None:
    assert disassemble(b"".join(code for code, _, _ in GOLDEN), tmp_path) == [text for _, _, text in GOLDEN]


@needs_assembler
def test_register_to_register_encodings_are_those_of_the_gnu_assembler(tmp_path: Path) -> None:
    # With a memory operand GNU as picks a shorter displacement, and where C5 would do it needs to be told C4.
    chosen = [(code, text) for code, _, text in GOLDEN if text.startswith("v") and "[" not in text]
    chosen.remove((asm.VZEROUPPER, "vzeroupper"))
    encodings = ["evex" if code[0] == 0x62 else "vex3" for code, _ in chosen]
    lines = [f"{{{how}}} {text}" for how, (_, text) in zip(encodings, chosen, strict=True)]
    expected = assemble(lines, tmp_path)
    assert len(chosen) >= 10
    assert b"".join(code for code, _ in chosen) == expected


def test_loop_tests_its_counter_first_and_jumps_back_to_its_body() -> None:
    body = b"\x90" * 3
    golden = "48 85 ff  0f 84 0c000000  90 90 90  48 ff cf  0f 85 f4ffffff"
    assert asm.repeat(RDI, body) == bytes.fromhex(golden)


@needs_disassembler
def test_disassembler_reads_the_loop(tmp_path: Path) -> None:
    lines = disassemble(asm.repeat(R8, asm.NOP * 200), tmp_path)
    end = asm.LOOP_HEAD_BYTES + 200 + 3 + 6  # dec r8, jne rel32
    assert lines == ["test r8,r8", f"je {end:#x}", *["nop"] * 200, "dec r8", "jne 0x9"]


def test_loop_head_has_the_stated_length() -> None:
    body = b"\xcc"
    assert asm.repeat(RDX, body).index(body) == asm.LOOP_HEAD_BYTES


def test_sse2_refuses_three_operands() -> None:
    with pytest.raises(ValueError, match="overwrites"):
        asm.add(SSE_F32, 1, 2, 3)


def test_scalars_have_no_streaming_store() -> None:
    with pytest.raises(ValueError, match="non-temporal"):
        asm.store_streaming(FMA_SD, Operand(RDX), 1)


def test_base_that_would_need_a_sib_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="SIB"):
        asm.load(SSE_F32, 1, Operand(12))


def test_time_stamp_is_read_when_all_before_is_done() -> None:
    golden = "0f ae e8  0f 31  48 c1 e2 20  48 0b c2  49 89 81 48000000"
    assert asm.store_time_stamp(Operand(R9, 72)) == bytes.fromhex(golden)


@needs_disassembler
def test_disassembler_reads_the_time_stamp(tmp_path: Path) -> None:
    lines = disassemble(asm.store_time_stamp(Operand(R9, 72)), tmp_path)
    assert lines == ["lfence", "rdtsc", "shl rdx,0x20", "or rax,rdx", "mov [r9+0x48],rax"]


def test_form_knows_its_lanes() -> None:
    assert (EVEX_F32.lanes, EVEX_F64.lanes, FMA_F64.lanes, SSE_SS.lanes, HALF.lanes) == (16, 8, 2, 1, 32)
    assert HALF_SH.is_scalar and not HALF_256.is_scalar
