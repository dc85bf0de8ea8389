"""Nsight Compute's CSV: the numbers of recorded files, and that nothing at all upsets the reader."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.errors import NotReadable

from .gpu_pages import HEADER, ops, read_text, rows

# Anything at all


GOOD = (
    "==PROF== Connected\nout, put\n"
    + HEADER
    + "\n"
    + rows(*ops(ffma="10"), ("dram__bytes.sum", "Mbyte", "1.50"), ("gpu__time_duration.sum", "us", "2.00"))
    + "\n"
    + rows(
        *ops(ffma="10"), ("dram__bytes.sum", "Mbyte", "1.50"), ("gpu__time_duration.sum", "us", "2.00"), key=1
    )
    + "\n"
)
WIDE = (
    '"ID","Process ID","Kernel Name","CC","dram__bytes.sum","gpu__time_duration.sum","l1tex__t_bytes.sum"\n'
    '"","","","","Mbyte","us","byte"\n'
    '"0","7","k, l","8.0","2.25","4.00","1,024"\n"1","7","k, l","8.0","2.25","4.00","1,024"\n'
)


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\r\t"))


LINE = TEXT.map(lambda text: "a program says " + "".join(text.splitlines()))
SOURCES = st.sampled_from([GOOD, WIDE])


@given(SOURCES, st.lists(st.tuples(st.integers(0, 99), LINE), max_size=4))
def test_what_a_program_says_between_the_rows_costs_none_of_them(
    good: str, said: list[tuple[int, str]]
) -> None:
    lines = good.splitlines()
    for at, line in said:
        lines.insert(at % (len(lines) + 1), line)
    assert read_text("\n".join(lines)).kernels == read_text(good).kernels
    assert len(read_text(good).launches) == 2


@given(st.integers(1, max(len(GOOD), len(WIDE))), SOURCES)
def test_a_file_cut_anywhere_holds_only_true_values(at: int, good: str) -> None:
    for kernel in read_text(good[:at]).kernels:
        mean = {level: value / kernel.launches for level, value in kernel.bytes.items()}
        assert mean.get("dram", 1.5e6) in (1.5e6, 2.25e6)
        assert kernel.flops in (None, 20.0 * kernel.launches)  # never the zeros of what was not cut off
        assert kernel.time_s is None or kernel.time_s > 1e-6


@given(SOURCES, st.integers(0, 2000), st.integers(0, 40), TEXT)
def test_a_damaged_file_has_no_time_of_zero_and_no_launch_too_many(
    good: str, at: int, length: int, junk: str
) -> None:
    damaged = good[:at] + junk + good[at + length :]
    with contextlib.suppress(NotReadable):  # of commas that may part decimals or thousands
        found = read_text(damaged.encode("utf-8", "replace"))
        assert len(found.launches) == sum(one.launches for one in found.kernels) <= 2 + damaged.count("\n")
        for kernel in found.kernels:
            assert kernel.launches > 0
            assert kernel.time_s is None or kernel.time_s > 0
            assert kernel.flops is None or kernel.flops >= 0
