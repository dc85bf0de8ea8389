"""The coordinator of parameter servers, on a made-up module."""

from __future__ import annotations

import pytest

from ..site import COORDINATOR, FUNCTION, IMPORT, TAPE, Site, steps, windows


def test_coordinator_marks_for_each_worker(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        import roofline_step, threading
        {IMPORT}
        with roofline_step.phase("connected"): pass
        queue = _CoordinatedClosureQueue()
        def work(index):
            worker = Worker(index, queue)
            for _ in range(3): worker._process_closure(Closure(args=(5, PerWorker(16, 8))))
        threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(queue.finished)
        """)
    assert out == "6\n"
    for index, size in ((0, 16), (1, 8)):
        own = [m for m in marks if m.index == index]
        assert steps(own) == windows(0, 1, 2)
        assert {(m.role, m.examples, m.asynchronous) for m in own} == {("worker", size, True)}
        assert [m.time_ns for m in own] == sorted(m.time_ns for m in own)


def test_steps_that_were_only_noted_are_sent_as_the_process_ends(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        import os
        {IMPORT}
        worker = Worker(0, _CoordinatedClosureQueue())
        for _ in range(20): worker._process_closure(Closure(args=(PerWorker(16),)))
        if os.fork() == 0: os._exit(0)  # has none to send
        os.wait()
        print("ended", flush=True)
        os._exit(0)
        """)
    assert out == "ended\n"
    assert steps(marks) == windows(*range(20))
    assert {m.examples for m in marks} == {16}


def test_process_that_a_signal_ends_while_marks_are_worked_out_does_not_hang(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        import os, sys
        {IMPORT}
        rounds = sys.modules["_roofline_hooks.tf.rounds"].Rounds
        finished = rounds.finished
        def ends(self, *args):  # as a handler would that runs now
            rounds.finished = finished
            print("ended", flush=True)
            os._exit(0)
        rounds.finished = ends
        worker = Worker(0, _CoordinatedClosureQueue())
        for _ in range(3): worker._process_closure(Closure())
        """)
    assert (marks, out) == ([], "ended\n")


@pytest.mark.slow
def test_closure_put_back_is_no_step(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for run in (lambda: None, fail, lambda: None): worker._process_closure(Closure(run=run))
        queue.mark_finished()  # nobody's closure
        print(queue.finished, queue.back)
        """)
    assert (steps(marks), out) == (windows(0, 1), "3 1\n")


def test_evaluation_is_no_step(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        worker = Worker(0, _CoordinatedClosureQueue())
        worker._process_closure(Closure("test_function"))
        worker._process_closure(Closure("train_function", args=(PerWorker(4), 10)))
        worker._process_closure(Closure("train_function", kwargs={{"it": PerWorker(4)}}))
        """)
    assert steps(marks) == windows(0, 1)
    assert [m.examples for m in marks] == [None, None, 4, 4], "steps_per_execution is not known here"


@pytest.mark.slow
def test_closure_of_unknown_shape_still_runs(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        class Odd:
            def run(self): print("ran")
        Worker(0, queue)._process_closure(Odd())
        Worker("zero", queue)._process_closure(Closure())
        print(queue.finished)
        """)
    assert (marks, out) == ([], "ran\n2\n")


@pytest.mark.slow
def test_closure_that_raises_out_of_the_worker_is_no_step(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        try: Worker(0, queue)._process_closure(Closure(run=lambda: 1 / 0))
        except ZeroDivisionError: print("raised")
        queue.mark_finished()
        """)
    assert (marks, out) == ([], "raised\n")


def test_joins_make_rounds_of_closures(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        workers = [Worker(0, queue), Worker(1, queue)]
        for turn in range(3):
            for worker in workers: train(worker, args=(PerWorker(16, 8),))
            print(queue.wait() if turn else queue.done())
        print(queue.wait(1))
        """)
    assert out == "True\nTrue\nTrue\nFalse\n"
    assert [(m.index, m.step, m.asynchronous) for m in marks[::2]] == [
        (index, turn, False) for turn in range(3) for index in (0, 1)
    ]
    assert [m.examples for m in marks[::2]] == [16, 8] * 3


@pytest.mark.slow
def test_marks_held_back_are_sent_when_the_process_ends(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        train(Worker(0, queue)); train(Worker(1, queue))
        queue.wait()
        """)
    assert [(m.index, m.step, m.asynchronous) for m in marks[::2]] == [(0, 0, False), (1, 0, False)]


@pytest.mark.slow
def test_wait_that_timed_out_is_no_round(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for _ in range(5): train(worker); queue.wait(1)
        """)
    assert [m.step for m in marks[::2]] == [0, 1, 2, 3, 4]
    assert {m.asynchronous for m in marks} == {True}


@pytest.mark.slow
def test_join_that_raises_ends_a_round_all_the_same(coordinator: Site) -> None:
    marks, out = coordinator.run(f"""
        import sys
        {IMPORT}
        c = sys.modules["{COORDINATOR}"]
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        queue.fail = True
        for _ in range(3):
            train(worker)
            try: queue.wait()
            except RuntimeError as error: print(error)
        """)
    assert {m.asynchronous for m in marks} == {False}
    assert (steps(marks), out) == (windows(0, 1, 2), "closure\n" * 3)


@pytest.mark.slow
def test_preparation_of_a_worker_is_no_closure_of_a_round(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for _ in range(9): queue.put(Closure(), tag=0)
        for _ in range(2): train(worker); queue.wait()
        """)
    assert (steps(marks), {m.asynchronous for m in marks}) == (windows(0, 1), {False})


@pytest.mark.slow
def test_function_without_a_gradient_is_no_step_once_one_was_seen(coordinator: Site, eager: Site) -> None:
    marks, _ = coordinator.run(f"""
        from {FUNCTION} import Function
        from {TAPE} import GradientTape, Variable, ops, Graph
        {IMPORT}
        weight = Variable()
        def closure(gradient):
            made = Closure()
            ops.graph = made._concrete_function.graph = Graph(ops.graph)
            context.eager = False
            if gradient: GradientTape().gradient("loss", [weight])
            context.eager, ops.graph = True, ops.graph.outer_graph
            return made
        from {TAPE} import context
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for gradient in (True, False, True):
            one = closure(gradient)
            queue.put(one); worker._process_closure(one)
        """)
    assert steps(marks) == windows(0, 1)
