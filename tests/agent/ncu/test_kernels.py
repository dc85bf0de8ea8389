"""Profiled launches become calls inside their steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.ncu.kernels import NOTE, Window, function, parse_windows, place, shape, share_out
from roofline_agent.recorded.recording import Launch


def launch(name: str = "k", time_s: float | None = 1e-6, **more: object) -> Launch:
    return Launch(name, time_s, **more)  # type: ignore[arg-type]


def test_windows_are_those_that_hooks_noted() -> None:
    text = "100 1000\n100 1000 2000\n101 2000\nnonsense\n102 -5 7\n"
    assert parse_windows(text, 9000) == [Window(100, 1000, 2000), Window(101, 2000, 9000, closed=False)]


def test_steps_that_launch_equally_many_share_equally() -> None:
    launches = [launch(str(n)) for n in range(6)]
    windows = [Window(1, 0, 10), Window(2, 10, 1000), Window(3, 1000, 1001)]
    assert [[one.name for one in mine] for mine in share_out(launches, windows)] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
    ]


def test_else_they_share_after_their_duration() -> None:
    launches = [launch() for _ in range(4)]
    assert [
        len(mine) for mine in share_out(launches, [Window(1, 0, 30), Window(2, 30, 40), Window(3, 40, 40)])
    ] == [
        3,
        1,
        0,
    ]
    assert share_out(launches, []) == []


@given(st.integers(0, 50), st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_every_launch_has_one_step(count: int, lengths: list[int]) -> None:
    launches = [launch(str(n)) for n in range(count)]
    windows = [Window(n, n * 1000, n * 1000 + length) for n, length in enumerate(lengths)]
    assert [one for mine in share_out(launches, windows) for one in mine] == launches


def test_calls_follow_one_another_from_the_beginning_of_the_step() -> None:
    calls = place(
        [launch(time_s=3e-6), launch(time_s=None), launch(time_s=2e-6)], Window(7, 1000, 90_000), 50
    )
    assert [(call.start_ns, call.duration_ns) for call in calls] == [(1050, 3000), (4050, 0), (4050, 2000)]


def test_calls_never_leave_their_step() -> None:
    calls = place([launch(time_s=1.0)] * 4, Window(7, 0, 100), 0)
    assert [call.start_ns for call in calls] == [0, 25, 50, 75]
    assert all(call.duration_ns == 10**9 for call in calls), "how long they took stays true"


def test_kernel_carries_what_was_counted_and_how() -> None:
    one = launch(
        "void gemm<float, int>(float *)",
        flops=2e9,
        bytes={"dram": 1e6, "l2": 5e6, "l1": 7e6},
        precision="f32",
        problem="grid (8, 1, 1)",
        note="a lower bound",
    )
    got = shape(one)
    assert (got.library, got.operation, got.precision) == ("cuda", "gemm", "f32")
    assert (got.flops, got.problem) == (2_000_000_000, "grid (8, 1, 1)")
    assert (got.l1_bytes, got.l2_bytes, got.dram_bytes) == (7_000_000, 5_000_000, 1_000_000)
    assert got.implementation == "void gemm<float, int>(float *)"
    assert got.note == f"a lower bound; {NOTE}"
    nothing = shape(launch())
    assert {nothing.flops, nothing.bytes, nothing.l1_bytes, nothing.l2_bytes, nothing.dram_bytes} == {None}


def test_function_is_the_name_without_types() -> None:
    assert function("void at::native::reduce<512, Op<float, Sum<int>>>(Op<float>)") == "at::native::reduce"
    assert function("ampere_sgemm_128x64_nn") == "ampere_sgemm_128x64_nn"
    assert function("") == ""
