"""Runs the few PTX instructions that our kernels have, a thread at a time, and notes what memory they touch.

There is no GPU where the tests run. This says what a kernel does, not how fast: NVIDIA's PTX ISA, chapter 9.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field

WORD = 0xFFFFFFFF
_ENTRY = r"\.visible \.entry {}\((?P<parameters>[^)]*)\)\s*\{{(?P<body>.*?)\n\}}"


@dataclass
class Seen:
    """What all threads did."""

    loads: Counter[int] = field(default_factory=Counter)  # address of each 16 bytes -> how often
    stores: Counter[int] = field(default_factory=Counter)  # likewise; single values under their address
    values: dict[int, tuple[float, ...]] = field(default_factory=dict)  # what was stored
    fmas: int = 0
    past_l1: bool = True  # every load


def run(source: str, name: str, blocks: int, threads: int, parameters: dict[str, float]) -> Seen:
    """The kernel on a grid. Loads give numbers made of their address."""
    match = re.search(_ENTRY.format(name), source, re.DOTALL)
    assert match, f"no kernel {name}"
    declared = re.findall(r"\.param \.\w+ (\w+)", match["parameters"])
    assert declared == list(parameters), "parameters in this order"
    lines = [line.strip().rstrip(";") for line in match["body"].splitlines()]
    program = [line for line in lines if line and not line.startswith(".reg")]
    seen = Seen()
    for block in range(blocks):
        for thread in range(threads):
            _Thread(program, parameters, (block, blocks, thread, threads), seen).run()
    return seen


def loaded(address: int) -> float:
    """What stands in memory there, as a number."""
    return float(address // 4 % 1021)


class _Thread:
    def __init__(
        self, program: list[str], parameters: dict[str, float], place: tuple[int, int, int, int], seen: Seen
    ) -> None:
        self._program, self._parameters, self._seen = program, parameters, seen
        block, blocks, thread, threads = place
        self._registers: dict[str, float] = {
            "%ctaid.x": block,
            "%nctaid.x": blocks,
            "%tid.x": thread,
            "%ntid.x": threads,
        }

    def run(self) -> None:
        at = 0
        while at < len(self._program):
            line = self._program[at]
            at += 1
            guard = re.match(r"@(%p\d+) (.*)", line)
            if guard:
                if not self._registers[guard[1]]:
                    continue
                line = guard[2]
            if line == "ret":
                return
            if line.startswith("bra "):
                at = self._program.index(line[4:] + ":")
            elif not line.endswith(":"):
                self._step(line)

    def _step(self, line: str) -> None:
        operation, _, rest = line.partition(" ")
        kind, *forms = operation.split(".")
        if kind in ("ld", "st"):
            self._memory(kind, forms, rest)
            return
        target, *operands = (word.strip() for word in rest.split(","))
        numbers = [self._value(word) for word in operands]
        is_real = forms[-1] in ("f32", "f64") and kind != "cvt"
        got = self._compute(kind, forms, numbers)
        self._registers[target] = got if is_real or kind in ("setp", "cvt") else int(got)

    def _compute(self, kind: str, forms: list[str], n: list[float]) -> float:
        if kind in ("mov", "cvt"):
            return n[0]
        if kind == "setp":
            return {"eq": n[0] == n[1], "ne": n[0] != n[1], "neu": n[0] != n[1]}[forms[0]]
        if kind == "fma":
            self._seen.fmas += 1
            return n[0] * n[1] + n[2]
        if kind == "mad":
            return (int(n[0]) * int(n[1]) + int(n[2])) & WORD
        if kind == "mul":
            product = int(n[0]) * int(n[1])
            return product if forms[0] == "wide" else product & WORD
        integer = forms[-1] in ("u32", "b32")
        got = {
            "add": lambda: n[0] + n[1],
            "sub": lambda: n[0] - n[1],
            "rem": lambda: int(n[0]) % int(n[1]),
            "xor": lambda: int(n[0]) ^ int(n[1]),
        }[kind]()
        return int(got) & WORD if integer else got

    def _value(self, word: str) -> float:
        if word in self._registers:
            return self._registers[word]
        if word.startswith("0f"):
            return float(struct.unpack(">f", bytes.fromhex(word[2:]))[0])
        if word.startswith("0d"):
            return float(struct.unpack(">d", bytes.fromhex(word[2:]))[0])
        return int(word)

    def _memory(self, kind: str, forms: list[str], rest: str) -> None:
        address = re.search(r"\[(%?\w+)\]", rest)
        assert address
        registers = re.findall(r"%\w+", rest.replace(address[0], ""))
        if forms[0] == "param":
            self._registers[registers[0]] = self._parameters[address[1]]
            return
        at = int(self._registers[address[1]])
        assert "v4" not in forms or at % 16 == 0, "16 bytes at a time must be aligned"
        if kind == "ld":
            self._seen.loads[at] += 1
            self._seen.past_l1 = self._seen.past_l1 and "cg" in forms
            for n, register in enumerate(registers):
                self._registers[register] = (
                    int(loaded(at + 4 * n)) if forms[-1] == "u32" else loaded(at + 4 * n)
                )
        else:
            self._seen.stores[at] += 1
            self._seen.values[at] = tuple(self._registers[register] for register in registers)
