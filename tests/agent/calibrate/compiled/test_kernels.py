"""The compiled kernels do the FLOP and move the bytes that they are counted by, here and on (emulated) Arm.

An emulator tells nothing about speed: only what the kernels compute is looked at.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

import pytest

from .targets import ARM, CROSS, HERE, Program, build

TURNS = 3


class Row(NamedTuple):
    name: str
    operation: str
    variant: str
    precision: str
    width: int
    chains: int
    updates: int
    flops: int

    @property
    def lanes(self) -> int:
        """Of a sum; sums of bf16 are f32."""
        return self.width // {"f64": 64, "f32": 32, "f16": 16, "bf16": 32}[self.precision]


EMULATED = [pytest.param(target, marks=pytest.mark.slow) for target in ARM]


@pytest.fixture(scope="module", params=[HERE, *EMULATED], ids=lambda target: target.name)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(request.param, tmp_path_factory.mktemp("kernels"))


def rows(program: Program) -> list[Row]:
    found = []
    for line in program("list"):
        name, operation, variant, precision, *numbers = line.split()
        found.append(Row(name, operation, variant.rstrip("."), precision, *map(int, numbers)))
    return found


def peaks(program: Program, *operations: str) -> list[Row]:
    return [row for row in rows(program) if row.flops and (row.operation in operations or not operations)]


def test_counted_flops_are_those_that_are_done(program: Program) -> None:
    """With factors of 1 every product adds 1 to a sum: half of the FLOP is what the sums hold."""
    found = peaks(program)
    assert {(row.precision, row.operation) for row in found} >= {("f64", "mul_add"), ("f32", "mul_add")}
    for row in found:
        lanes, low, high, kept, _ = program("peak", row.name, TURNS, 1, 1, 0)
        assert int(lanes) == row.chains * row.lanes, row
        assert low == high and 2 * int(lanes) * float.fromhex(low) == TURNS * row.flops, row
        assert kept == "1", f"{row.name} writes beyond its sums"


def test_no_turn_does_nothing(program: Program) -> None:
    for row in peaks(program):
        _, low, high, kept, _ = program("peak", row.name, 0, 1, 1, 5)
        assert (float.fromhex(low), float.fromhex(high), kept) == (5, 5, "1"), row


# A factor whose square has a bit too many, and that bit: what is fused keeps it.
FACTORS = {"f64": (1 + 2**-27, 2**-54), "f32": (1 + 2**-13, 2**-26), "f16": (1 + 2**-6, 2**-12)}


def test_fused_products_are_rounded_once_and_others_twice(program: Program) -> None:
    for row in peaks(program, "fma", "mul_add"):
        factor, bit = FACTORS[row.precision]
        square = factor * factor - bit
        # All but the last product meet a sum too large for the bit; the last one cancels all but the bit.
        _, low, _, _, _ = program("peak", row.name, 1, factor, factor, -square * row.updates)
        assert float.fromhex(low) == (bit if row.operation == "fma" else 0.0), row


def test_dot_products_add_every_pair(program: Program) -> None:
    for row in peaks(program, "dot", "mmla"):
        products = 2 if row.operation == "dot" else 4
        _, low, high, _, _ = program("peak", row.name, TURNS, 0.5, 4, 1)
        expected = 1 + TURNS * row.updates * products * 2
        assert (float.fromhex(low), float.fromhex(high)) == (expected, expected), row


@pytest.mark.parametrize(("passes", "blocks"), [(0, 3), (1, 0), (1, 1), (4, 7)])
def test_streams_go_through_every_element_once_a_pass_and_no_further(
    program: Program, passes: int, blocks: int
) -> None:
    found = [row for row in rows(program) if not row.flops]
    assert {row.operation for row in found} == {"read", "copy", "triad"}
    for row in found:
        sums, total, untouched, count = program("stream", row.name, passes, blocks)
        elements = range(int(count))
        before = sum(i + 1 for i in elements)
        written = {
            "read": before,
            "copy": sum(i + 2 for i in elements),
            "triad": sum(i + 2 + 3 * 2 * i for i in elements),
        }[row.operation]
        assert int(count) == blocks * row.updates * row.width // 64, row
        assert float(total) == (written if passes else before), row
        assert float(sums) == (passes * before if row.operation == "read" else 0), row
        assert untouched == "1", f"{row.name} writes beyond its blocks"


def test_clock_stamps_follow_each_kernel(program: Program) -> None:
    for row in peaks(program, "mul_add"):
        assert program("peak", row.name, 1, 1, 1, 0)[-1] == "1", row


def test_widths_are_those_that_the_processor_was_said_to_have(program: Program) -> None:
    widths = {row.width for row in peaks(program) if row.precision == "f64"}
    expected = {"armv8": {64, 128}, "armv8.2-fp16-bf16": {64, 128}, "sve-256": {64, 128, 256}}
    expected["sve-512"] = {64, 128, 512}
    assert widths == expected.get(program.target.name, widths) and widths >= {64, 128}
    halves = {row.operation for row in peaks(program) if row.precision in ("f16", "bf16")}
    if program.target in ARM:
        assert halves == (set() if program.target.name == "armv8" else {"fma", "mul_add", "dot", "mmla"})


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-objdump"), reason="no disassembler for aarch64")
def test_arm_multiplies_and_adds_in_vector_registers(tmp_path: pytest.TempPathFactory) -> None:
    program = build(ARM[1], tmp_path)  # type: ignore[arg-type]
    command = [CROSS.replace("gcc", "objdump"), "-d", "--no-show-raw-insn", str(program.path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, instruction, operands in (
        ("fma_f64_128", "fmla", ".2d"),
        ("fma_f16_128", "fmla", ".8h"),
        ("fma_f64_scalar", "fmadd", "d"),
        ("dot_bf16_128", "bfdot", ".8h"),
        ("mmla_bf16_128", "bfmmla", ".8h"),
    ):
        (row,) = [row for row in peaks(program) if row.name == name]
        code = listing.split(f"<{name}>:\n")[1].split("\n\n")[0].splitlines()
        found = [line.split("\t") for line in code if line.split("\t")[1] == instruction]
        assert len(found) == row.chains * row.updates, name
        assert all(operands in fields[2] for fields in found), name
