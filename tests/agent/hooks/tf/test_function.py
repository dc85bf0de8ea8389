"""Training loops by hand in TensorFlow, and the input they take in Python, on made-up modules."""

from __future__ import annotations

import textwrap
from itertools import pairwise

import pytest

from ..site import FUNCTION, ITERATOR, KERAS_2, TAPE, Site, run, steps, stretches, windows

LOOP = f"""
        from {FUNCTION} import Function
        from {TAPE} import GradientTape, Variable, Tensor, context
        from {ITERATOR} import OwnedIterator
        weight, other = Variable(), Variable()
        def train(*args, of=weight):
            with GradientTape() as tape: pass
            return tape.gradient("loss", [of])
"""


def test_function_that_takes_a_gradient_is_the_step(eager: Site) -> None:
    said = run(
        eager,
        f"""{LOOP}
        step, evaluate = Function(train), Function(lambda x: x)
        for _ in range(3): step(True, Tensor(), Tensor(16, 3), Tensor(16)); evaluate(Tensor(99))
        print(step(Tensor(8)), evaluate(1))
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2, 3)
    assert [m.examples for m in said.marks[::2]] == [16, 16, 16, 8]
    ends = stretches(said.marks)
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert said.out == "ran ran\n"
    assert said.facts["hook.tf_function"] == "installed"
    assert (said.facts["gradient.bytes"], said.facts["gradient.tensors"]) == ("40", "1")


def test_gradients_of_one_function_are_added_up(eager: Site) -> None:
    code = f"""{LOOP}
        Function(lambda: (train(), train(of=other), train()))()
        """
    assert run(eager, code).facts["gradient.bytes"] == "80"
    horovod = "import sys; sys.modules['horovod.tensorflow'] = sys\n"
    assert "gradient.bytes" not in run(eager, horovod + textwrap.dedent(code)).facts


@pytest.mark.slow
def test_outermost_function_is_the_step(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        inner = Function(train)
        outer = Function(lambda x: inner(x))
        for _ in range(3): outer(Tensor(2, 2))
        """)
    assert steps(marks) == windows(0, 1, 2)


@pytest.mark.slow
def test_function_traced_beforehand_is_the_step(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        step = Function(train)
        step.get_concrete_function(Tensor(2, 2))
        for _ in range(2): step(Tensor(2, 2))
        """)
    assert steps(marks) == windows(0, 1)


@pytest.mark.slow
def test_gradient_taken_in_a_replicas_thread_is_its_functions(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        import threading
        def replicated(x):
            thread = threading.Thread(target=train)
            thread.start(); thread.join()
        step = Function(replicated)
        for _ in range(2): step(Tensor(2, 2))
        """)
    assert steps(marks) == windows(0, 1)


@pytest.mark.slow
def test_gradient_with_respect_to_an_input_trains_nothing(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        attack = Function(lambda x: train(of=x))
        for _ in range(2): attack(Tensor(2, 2)); train(of=Tensor(2, 2)); train(of=[])
        """)
    assert marks == []


@pytest.mark.slow
def test_eager_gradients_end_steps(eager: Site) -> None:
    said = run(
        eager,
        f"""{LOOP}
        for _ in range(2):
            for batch in OwnedIterator(2): train(); train(of=other)
            for batch in OwnedIterator(5): pass
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2, 3)
    assert [m.examples for m in said.marks[::2]] == [4] * 4
    names = [name for name, _, _ in said.phases]
    assert names == [
        "phase.input",
        "phase.backward",
        "phase.backward",
        "phase.input",
        "phase.backward",
    ] * 2 or (names.count("phase.input") == 4)
    one, two, three, four = stretches(said.marks)
    assert one[1] == two[0] and two[1] < three[0] and three[1] == four[0]
    assert one[0] == said.phases[0][1], "a first step begins with its input"


@pytest.mark.slow
def test_eager_step_without_input_begins_with_its_tape(eager: Site) -> None:
    said = run(
        eager,
        f"""{LOOP}
        import time
        with GradientTape() as tape: time.sleep(0.02)
        tape.gradient("loss", {{"a": [weight]}})
        """,
    )
    [(begin, end)] = stretches(said.marks)
    assert end - begin > 20_000_000


@pytest.mark.slow
def test_batches_taken_in_python_are_input(eager: Site) -> None:
    said = run(
        eager,
        f"""{LOOP}
        step, evaluate = Function(train), Function(lambda x, y: x)
        for _ in range(2):
            for x, y in OwnedIterator(2): step(x, y)
            for x, y in OwnedIterator(3): evaluate(x, y)
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2, 3)
    phases = [one for one in said.phases if one[0].startswith("phase.")]
    assert [name for name, _, _ in phases] == ["phase.input", "phase.call"] * 4
    one, two, three, _ = stretches(said.marks)
    assert one[1] == two[0] and two[1] < three[0], "evaluation and the end of an epoch are in no step"
    for (_, begin, end), after in pairwise(phases):
        assert begin <= end <= after[1]


@pytest.mark.slow
def test_batch_taken_while_tracing_or_in_another_thread_is_no_input(eager: Site) -> None:
    said = run(
        eager,
        f"""{LOOP}
        import threading
        iterator = OwnedIterator(9)
        step = Function(lambda it: train(next(it)))
        for _ in range(2): step(iterator)
        thread = threading.Thread(target=next, args=(iterator,))
        thread.start(); thread.join()
        step(iterator)
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2)
    assert {name for name, _, _ in said.phases if name.startswith("phase.")} == {"phase.call"}


@pytest.mark.slow
def test_function_that_raises_is_no_step_and_raises_as_ever(eager: Site) -> None:
    marks, out = eager.run(f"""{LOOP}
        def once(x):
            train(x)
            if x == "bad": 1 / 0
        step = Function(once)
        step("good")
        step.traced = False
        try: step("bad")
        except ZeroDivisionError: print("raised")
        step("good")
        """)
    assert (steps(marks), out) == (windows(0, 1), "raised\n")
    first, second = stretches(marks)
    assert first[1] < second[0]


@pytest.mark.slow
def test_keras_train_function_is_marked_once(eager: Site, keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""{LOOP}
        from {KERAS_2} import Model
        class Mine(Model):
            def make_train_function(self, force=False): pass
        model = Model()
        step = Function(train)
        model.make_train_function()
        model.train_function._function = step
        model.fit(2)
        """)
    assert steps(marks) == windows(0, 1)


@pytest.mark.slow
def test_arguments_of_unknown_shape_raise_nothing(eager: Site) -> None:
    marks, out = eager.run(f"""{LOOP}
        class Odd:
            @property
            def shape(self): raise RuntimeError
        step = Function(train)
        print(step(Odd()), step(Tensor(None, 3)), step(x={{"a": [Tensor(5, 1)]}}))
        """)
    assert out == "ran ran ran\n"
    assert [(m.step, m.examples) for m in marks[::2]] == [(0, None), (1, None), (2, 5)]
