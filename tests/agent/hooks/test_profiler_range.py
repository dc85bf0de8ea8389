"""The CUDA profiler's range is open in the steps asked for, with a made-up CUDA library."""

from __future__ import annotations

from .site import BEGIN, BORDER, END, KERAS_2, Cuda, Site, steps


def test_range_is_open_in_the_steps_asked_for(torch: Site, cuda: Cuda) -> None:
    marks, _ = torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart-ab12cd34.so.11.0"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(8): one.step()
        """,
        **cuda.environ("2-3,6"),
    )
    assert cuda.calls == ["start", "stop"] * 3
    times = {mark.step: mark.time_ns for mark in marks}
    closed = [line for line in cuda.windows if len(line) == 3]
    assert closed == [[n, times[n - 1], times[n]] for n in (2, 3, 6)], "a window is the step as it was marked"
    assert [line for line in cuda.windows if len(line) == 2] == [line[:2] for line in closed]


def test_runtime_linked_in_is_reached_by_the_driver_library(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcuda.so.1"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(3): one.step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["cu-start", "cu-stop"]


def test_without_cuda_no_range_is_opened_and_nothing_is_noticed(torch: Site, cuda: Cuda) -> None:
    marks, out = torch.run(
        """
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(4): one.step()
        print("fine")
        """,
        **cuda.environ("1-2"),
    )
    assert (steps(marks), out) == ([(BORDER, n) for n in range(4)], "fine\n")
    assert cuda.calls == [] and not (cuda.root / "windows").exists()


def test_range_follows_the_marks_of_the_training(torch: Site, cuda: Cuda) -> None:
    marks, _ = torch.run(
        f"""
        import ctypes, roofline_step
        from roofline_step import mark
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for k in range(10, 14): mark(k); one.step()
        with roofline_step.step(20): one.step()
        mark(21, of=("worker", 3))
        mark(None); mark("21")
        """,
        **cuda.environ("1-3,12,20-21"),
    )
    assert cuda.calls == ["start", "stop", "start", "stop"], "steps are counted as the training does"
    times = {(mark.step, mark.kind): mark.time_ns for mark in marks}
    assert [line for line in cuda.windows if len(line) == 3] == [
        [12, times[11, BORDER], times[12, BORDER]],
        [20, times[20, BEGIN], times[20, END]],
    ]


def test_step_that_never_ends_closes_the_range_but_is_no_window(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        Optimizer().step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["start", "stop"]
    assert [len(line) for line in cuda.windows] == [2]


def test_forked_worker_leaves_the_range_alone(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes, os, sys
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        one.step()
        if os.fork() == 0: sys.exit(0)
        os.wait()
        one.step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["start", "stop"]


def test_range_follows_keras(keras_2: Site, cuda: Cuda) -> None:
    keras_2.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from {KERAS_2} import Model
        Model().fit(4)
        """,
        **cuda.environ("2"),
    )
    assert cuda.calls == ["start", "stop"]
    assert [line[0] for line in cuda.windows] == [2, 2]


def fit_ten_steps_a_call(site: Site, cuda: Cuda, asked: str) -> None:
    site.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from {KERAS_2} import Model
        Model(10).fit(4)
        """,
        **cuda.environ(asked),
    )


def test_range_of_a_call_that_makes_several_steps_is_that_of_all_of_them(keras_2: Site, cuda: Cuda) -> None:
    fit_ten_steps_a_call(keras_2, cuda, "20-21")
    assert cuda.calls == ["start", "stop"]
    assert [line[0] for line in cuda.windows if len(line) == 3] == list(range(20, 30))


def test_no_range_is_opened_for_steps_that_have_ended(keras_2: Site, cuda: Cuda) -> None:
    fit_ten_steps_a_call(keras_2, cuda, "15-17")
    assert cuda.calls == [] and not (cuda.root / "windows").exists()
