from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from roofline_server.correlate import kernel_totals
from roofline_server.correlate.kernel_totals import Adder, KernelTotal, Phases
from roofline_server.correlate.stretch_index import Stretches, StretchIndex
from roofline_server.records import ABSENT, Ints, KernelKind, Table, take

CONV, POOL = (
    KernelKind("onednn", name, "", "f32", "jit:avx2", "", "") for name in ("convolution", "pooling")
)
KINDS = {1: CONV, 2: POOL}


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def calls(*found: tuple[int, int, int, int], **more: Any) -> Table:
    """found: (rank, kernel, time_ns, duration_ns)."""
    names = ("rank", "kernel", "time_ns", "duration_ns")
    made: Table = {name: ints(*(c[i] for c in found)) for i, name in enumerate(names)}
    return made | {name: ints(*values) for name, values in more.items()}


def spans(*found: tuple[int, str, int, int]) -> Table:
    """found: (rank, name, begin_ns, end_ns)."""
    return {
        "rank": ints(*(s[0] for s in found)),
        "name": np.array([s[1] for s in found], object),
        "time_ns": ints(*(s[2] for s in found)),
        "end_ns": ints(*(s[3] for s in found)),
    }


def added(made: Table, stretches: Stretches, phases: Phases | None = None) -> list[KernelTotal]:
    adder = Adder(stretches, phases)
    adder.add(made)
    return adder.totals(KINDS)


def test_calls_of_a_kind_are_added_up_and_those_that_took_longest_come_first() -> None:
    made = calls((7, 1, 0, 100), (7, 2, 200, 900), (7, 1, 400, 300), flops=(5, ABSENT, 6), bytes=(1, 8, 2))
    first, second = added(made, {7: None})
    assert (first.kind, first.calls, first.time_ns) == (POOL, 1, 900)
    assert (second.kind, second.calls, second.time_ns) == (CONV, 2, 400)
    assert (second.flops, second.bytes) == (11, 3)


def test_sum_that_one_call_lacks_is_absent_and_zero_is_zero() -> None:
    made = calls((7, 1, 0, 1), (7, 1, 5, 1), flops=(0, 0), bytes=(3, ABSENT), l2=(4, 5))
    (only,) = added(made, {7: None})
    assert (only.flops, only.bytes, only.dram, only.l1, only.l2) == (0, None, None, None, 9)


def test_level_counted_in_some_pieces_only_is_absent() -> None:
    adder = Adder({7: None})
    adder.add(calls((7, 1, 0, 1), dram=(4,)))
    adder.add(calls((7, 1, 5, 1)))
    assert adder.totals(KINDS)[0].dram is None


def test_call_belongs_to_the_stretch_of_its_middle() -> None:
    made = calls((7, 1, 90, 19), (7, 1, 90, 20), (7, 1, 5, 2), (7, 1, 199, 4), (8, 1, 5, 2))
    adder = Adder({7: (ints(0, 150), ints(100, 200)), 8: (ints(), ints())})
    adder.add(made)
    assert [(t.rank, t.calls, t.time_ns) for t in adder.totals(KINDS)] == [(7, 2, 21)]
    assert adder.outside == 3


def test_rank_nobody_asked_for_does_not_count() -> None:
    adder = Adder({7: None})
    adder.add(calls((6, 1, 5, 1), (7, 1, 5, 1), (9, 1, 5, 1)))
    assert ([t.rank for t in adder.totals(KINDS)], adder.outside) == ([7], 0)


def test_large_sums_do_not_overflow() -> None:
    (only,) = added(calls(*[(7, 1, 0, 1)] * 4, flops=(2**62,) * 4), {7: None})
    assert only.flops == 2.0**64


def test_gpu_and_unknown_kinds() -> None:
    cpu, gpu = added(calls((7, 1, 0, 2), (7, 99, 0, 1), on_gpu=(0, 1)), {7: None})
    assert (cpu.on_gpu, gpu.on_gpu, gpu.kind.operation) == (False, True, "unknown")


def test_flops_of_a_gpu_are_counted_unless_it_is_said_otherwise() -> None:
    plain = calls((7, 1, 0, 2), (7, 2, 0, 1), on_gpu=(0, 1))
    assert [t.counted for t in added(plain, {7: None})] == [False, True]
    other = calls((7, 1, 0, 2), (7, 2, 0, 1), on_gpu=(0, 1), counted=(1, 0))
    assert [t.counted for t in added(other, {7: None})] == [True, False]


def test_call_is_in_the_phase_that_holds_its_middle() -> None:
    phases = Phases(
        spans(
            (7, "phase.forward", 0, 100),
            (7, "phase.backward", 100, 200),
            (8, "phase.forward", 150, 300),
            (7, "asked.allreduce", 0, 300),
        )
    )
    made = calls((7, 1, 90, 8), (7, 1, 99, 4), (7, 1, 250, 2), (8, 1, 99, 4), (8, 1, 200, 4))
    found = {(t.rank, t.phase): t.calls for t in added(made, {7: None, 8: None}, phases)}
    assert found == {(7, "forward"): 1, (7, "backward"): 1, (7, ""): 1, (8, ""): 1, (8, "forward"): 1}


def test_phases_of_all_ranks_are_looked_through_together(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def counted(table: Table, which: NDArray[np.generic]) -> Table:
        looked.append(len(which))
        return take(table, which)

    monkeypatch.setattr(kernel_totals, "take", counted)
    found = Phases(spans(*((r, "phase.forward", 100 * r, 100 * r + 50) for r in range(40))))
    assert len(looked) <= 3 and max(looked) <= 40
    assert found.of(ints(3, 3, 39), ints(320, 360, 3920)).tolist() == [1, 0, 1]


def test_phase_that_begins_in_another_ends_it() -> None:
    phases = Phases(spans((7, "phase.forward", 0, 100), (7, "phase.input", 50, 60)))
    at = phases.of(ints(7, 7, 7), ints(10, 55, 80))
    assert [phases.names[i] for i in at] == ["forward", "input", ""]


def test_without_spans_there_are_no_phases() -> None:
    (only,) = added(calls((7, 1, 90, 8)), {7: None}, Phases({}))
    assert only.phase == ""


def test_nothing_has_no_totals() -> None:
    assert added(calls(), {7: None}) == added(calls((7, 1, 0, 1)), {}) == Adder({}).totals(KINDS) == []


@pytest.mark.parametrize("duration", [0, 1, 63, 1_000_003, 2**52 + 1])
def test_quantiles_of_calls_that_took_equally_long_are_exact(duration: int) -> None:
    (only,) = added(calls(*[(7, 1, 0, duration)] * 5), {7: None})
    assert only.time == (*[pytest.approx(duration / 1e9, rel=1e-12)] * 5, 5)


@given(st.lists(st.floats(0, 40), min_size=1, max_size=200))
def test_quantiles_are_within_a_bin_of_the_true_ones(octaves: list[float]) -> None:
    durations = sorted(int(2**x) for x in octaves)
    (only,) = added(calls(*((7, 1, 0, d) for d in durations)), {7: None})
    for share, found in zip((0.05, 0.25, 0.5, 0.75, 0.95), only.time[:5], strict=True):
        true = durations[max(0, math.ceil(share * len(durations)) - 1)] / 1e9
        assert found == pytest.approx(true, rel=0.04, abs=1e-9)
    assert list(only.time[:5]) == sorted(only.time[:5])


CALLS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, 2), st.integers(-50, 500), st.integers(0, 90), st.integers(0, 9)
    ),
    max_size=40,
)
WINDOWS = st.dictionaries(
    st.integers(0, 3), st.lists(st.tuples(st.integers(0, 400), st.integers(1, 90)), max_size=4), max_size=4
)


@given(CALLS, WINDOWS, st.integers(1, 7))
def test_pieces_add_up_to_what_each_call_says(
    found: list[tuple[int, int, int, int, int]], windows: dict[int, list[tuple[int, int]]], pieces: int
) -> None:
    stretches = {r: (ints(*(b for b, _ in w)), ints(*(b + n for b, n in w))) for r, w in windows.items()}
    made = calls(*(c[:4] for c in found), flops=tuple(c[4] for c in found))
    adder = Adder(stretches)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel_totals, "KEPT_ROWS", 0)
        for part in np.array_split(np.arange(len(found)), pieces):
            adder.add(take(made, part))
    expected: dict[tuple[int, KernelKind], list[int]] = {}
    for r, k, t, d, f in found:
        if any(b <= t + d // 2 < b + n for b, n in windows.get(r, [])):
            sums = expected.setdefault((r, KINDS[k]), [0, 0, 0])
            for at, more in enumerate((1, d, f)):
                sums[at] += more
    assert {(t.rank, t.kind): [t.calls, t.time_ns, t.flops] for t in adder.totals(KINDS)} == expected


def test_many_ranks_over_years_are_told_apart() -> None:
    year = 365 * 86_400 * 10**9
    stretches = {r: (ints(0, 9 * year), ints(year, 10 * year)) for r in range(0, 100, 2)}
    at, inside = StretchIndex(stretches).find(
        ints(0, 2, 2, 3, 98), ints(year // 2, 2 * year, 9 * year + 10**9, 5, 5)
    )
    assert inside.tolist() == [True, False, True, False, True]
    assert at[inside].tolist() == [0, 3, 98]


def test_what_is_kept_does_not_follow_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_totals, "KEPT_ROWS", 8)
    adder = Adder({7: None})
    for piece in range(100):
        adder.add(calls((7, 1, piece, 3), (7, 2, piece, 4)))
    assert len(adder._sums) + len(adder._bins) < 20
    assert [t.calls for t in adder.totals(KINDS)] == [100, 100]
