"""What our GPU kernels touch and compute, instruction by instruction: the counts that ceilings divide by."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from roofline_agent.calibrate.gpu.bench import ptx

from .ptx_machine import loaded, run

BASE = 1 << 20
SOURCE = ptx.source()
# Small grids: what holds for 4 threads a block holds for 256, as the kernels ask for the size of theirs.
THREADS = 4
TILE = ptx.UNROLL * THREADS * 16


def pieces(first: int, size: int) -> set[int]:
    return set(range(first, first + size, 16))


@pytest.mark.parametrize("rounds", [1, 3])
def test_reading_touches_all_of_the_array_once_a_pass(rounds: int) -> None:
    blocks, passes = 3, 2
    parameters = {"array": BASE, "parts": blocks, "rounds": rounds, "passes": passes, "result": 0}
    seen = run(SOURCE, "read", blocks, THREADS, parameters)
    assert set(seen.loads) == pieces(BASE, blocks * rounds * TILE)
    assert set(seen.loads.values()) == {passes}
    assert seen.past_l1 and not seen.stores


def test_more_blocks_than_parts_read_the_same_memory() -> None:
    """As of the L2: a small working set, and a grid that fills the GPU."""
    parameters = {"array": BASE, "parts": 2, "rounds": 1, "passes": 3, "result": 0}
    seen = run(SOURCE, "read", 6, THREADS, parameters)
    assert set(seen.loads) == pieces(BASE, 2 * TILE)
    assert sum(seen.loads.values()) * 16 == 6 * TILE * 3, "bytes of a launch: blocks x tile x passes"


def test_block_goes_on_to_another_part_from_pass_to_pass() -> None:
    parameters = {"array": BASE, "parts": 3, "rounds": 1, "passes": 1, "result": 0}
    one = run(SOURCE, "read", 1, THREADS, parameters)
    two = run(SOURCE, "read", 1, THREADS, {**parameters, "passes": 2})
    assert len(two.loads) == 2 * len(one.loads)


def test_copy_reads_and_writes_every_piece_once() -> None:
    parameters = {"source": BASE, "target": 2 * BASE, "rounds": 2}
    seen = run(SOURCE, "copy", 3, THREADS, parameters)
    assert set(seen.loads) == pieces(BASE, 3 * 2 * TILE) and set(seen.loads.values()) == {1}
    assert set(seen.stores) == pieces(2 * BASE, 3 * 2 * TILE) and set(seen.stores.values()) == {1}
    assert all(seen.values[at] == tuple(loaded(at - BASE + 4 * n) for n in range(4)) for at in seen.values)


def test_triad_adds_three_times_the_third_array_to_the_second() -> None:
    parameters = {"a": 3 * BASE, "b": BASE, "c": 2 * BASE, "rounds": 2}
    seen = run(SOURCE, "triad", 2, THREADS, parameters)
    size = 2 * 2 * TILE
    assert set(seen.loads) == pieces(BASE, size) | pieces(2 * BASE, size)
    assert set(seen.stores) == pieces(3 * BASE, size) and set(seen.stores.values()) == {1}
    for at, values in seen.values.items():
        b, c = at - 2 * BASE, at - BASE
        assert values == tuple(loaded(b + 4 * n) + 3 * loaded(c + 4 * n) for n in range(4))


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_multiply_adds_are_as_many_as_the_ceiling_counts(precision: str) -> None:
    parameters = {"factor": 0.5, "summand": 0.25, "rounds": 3, "result": 0}
    seen = run(SOURCE, f"fma_{precision}", 2, 1, parameters)
    assert seen.fmas == 2 * 3 * ptx.CHAINS * ptx.LINKS
    assert not seen.loads and not seen.stores


def test_empty_kernel_does_nothing() -> None:
    seen = run(SOURCE, "empty", 1, 1, {})
    assert not seen.loads and not seen.stores and not seen.fmas


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas (CUDA toolkit)")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_nvidias_assembler_takes_them(tmp_path: Path, architecture: str) -> None:
    (tmp_path / "kernels.ptx").write_text(SOURCE)
    known = subprocess.run(["ptxas", "--help"], capture_output=True, text=True).stdout
    if architecture not in known:
        pytest.skip(f"this ptxas does not know {architecture}")
    command = ["ptxas", f"-arch={architecture}", "-o", tmp_path / "kernels.cubin", tmp_path / "kernels.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
