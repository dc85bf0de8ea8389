"""Keras `fit` of both generations, on made-up modules."""

from __future__ import annotations

import textwrap
from itertools import pairwise

import pytest

from ..site import KERAS_2, KERAS_3, Site, run, steps, stretches, windows


def test_keras_2_marks_a_window_a_step(keras_2: Site) -> None:
    marks, out = keras_2.run(f"""
        from {KERAS_2} import Model
        model = Model()
        print(model.fit(2), model.train_function.name)
        """)
    assert steps(marks) == windows(0, 1)
    assert [m.examples for m in marks] == [32] * 4
    times = [m.time_ns for m in marks]
    assert times == sorted(times)
    assert out == "{'loss': 1} mine\n", "the function is itself in all else"


def test_second_fit_goes_on_and_marks_once(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        model = Model()
        model.fit(2); model.fit(1)
        model.make_train_function(force=True); model.fit(1)
        """)
    assert steps(marks) == windows(0, 1, 2, 3)


def test_call_of_several_steps_is_so_many_equal_ones(keras_2: Site) -> None:
    said = run(
        keras_2,
        f"""
        from {KERAS_2} import Model
        class Variable:
            def numpy(self): return 5
        Model(Variable()).fit(1)
        """,
    )
    assert steps(said.marks) == windows(*range(5))
    assert [m.examples for m in said.marks] == [32] * 10
    parts = stretches(said.marks)
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    lengths = [end - begin for begin, end in parts]
    assert max(lengths) - min(lengths) <= 1
    assert sum(end - begin for _, begin, end in said.phases) == sum(lengths)
    assert said.facts["steps.from"].startswith("calls of up to 5 updates")


def test_step_of_a_model_that_accumulates_gradients_is_an_update(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        class Optimizer: gradient_accumulation_steps = 4
        model = Model()
        model.optimizer = Optimizer()
        model.fit(8)
        for _ in range(4): model.train_on_batch()
        several = Model(6)
        several.optimizer = Optimizer()
        several.fit(2)
        """)
    assert steps(marks) == windows(*range(6))
    assert [m.examples for m in marks[1::2]] == [128, 128, 128, 192, 96, 96]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["(None, 8)", "()", "'x'"])
def test_batch_size_that_is_not_static_is_unknown(keras_2: Site, shape: str) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model, Spec, Iterator
        class Odd(Iterator): element_spec = {{"a": Spec(*{shape})}}
        Model().fit(1, Odd())
        """)
    assert [m.examples for m in marks] == [None, None]


def test_keras_under_parameter_servers_is_left_to_the_coordinator(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        model = Model()
        model._cluster_coordinator = object()
        model.fit(2)
        """)
    assert marks == []


def test_exception_inside_the_hook_stays_there(keras_2: Site) -> None:
    marks, out = keras_2.run(f"""
        from {KERAS_2} import Model, Iterator
        class Odd(Iterator):
            @property
            def element_spec(self): raise RuntimeError
        print(Model().fit(2, Odd()), Model("many").fit(1))
        """)
    assert (marks, out) == ([], "{'loss': 1} {'loss': 1}\n")


def test_train_function_that_raises_is_no_step(keras_2: Site) -> None:
    marks, out = keras_2.run(f"""
        from {KERAS_2} import Model
        model = Model()
        model.fit(1)
        model.train_function._function = lambda iterator: 1 / 0
        try: model.fit(1)
        except ZeroDivisionError: print("raised")
        """)
    assert (steps(marks), out) == (windows(0), "raised\n")


def test_model_can_be_copied(keras_2: Site) -> None:
    _, out = keras_2.run(f"""
        import copy
        from {KERAS_2} import Model
        model = Model()
        model.fit(1)
        try: copy.copy(model.train_function)
        except RecursionError: print("recursion")
        """)
    assert out == ""


def test_keras_3_keeps_its_function_itself(site: Site) -> None:
    site.module(
        KERAS_3,
        """
        class TensorFlowTrainer:
            train_function = None
            steps_per_execution = 2
            def make_train_function(self, force=False):
                if self.train_function and not force: return self.train_function
                self.train_function = lambda iterator: 7
            def fit(self, steps):
                self.make_train_function()
                return [self.train_function(None) for _ in range(steps)]
        """,
    )
    marks, out = site.run(f"""
        from {KERAS_3} import TensorFlowTrainer
        trainer = TensorFlowTrainer()
        print(trainer.fit(2), trainer.fit(1))
        """)
    assert (steps(marks), out) == (windows(*range(6)), "[7, 7] [7]\n"), "two steps in each call"


ARRAYS = """
        class Unknown(Iterator): element_spec = Spec(None, 3)
        class Adapter:
            def batch_size(self): return 16
            def get_size(self): return 4
            def has_partial_batch(self): return True
            def partial_batch_size(self): return 15
        class Handler: _adapter = Adapter()
        class data_adapter:
            def get_data_handler(model=None): return Handler()
"""


MINE = f"""
        import sys
        from {KERAS_2} import Model, Unknown
        keras = sys.modules["{KERAS_2}"]
        class Mine(Model):
            def make_train_function(self):
                keras.data_adapter.get_data_handler(model=self)
                return super().make_train_function()"""


@pytest.fixture
def arrays(keras_2: Site) -> Site:
    path = keras_2.root / "keras" / "src" / "engine" / "training.py"
    path.write_text(path.read_text() + textwrap.dedent(ARRAYS))
    return keras_2


def test_arrays_cut_into_batches_are_counted(arrays: Site) -> None:
    marks, _ = arrays.run(f"""{MINE}
        Mine().fit(4, Unknown(), epochs=2)
        Mine(3).fit(2, Unknown())
        one = Mine(3)
        one.distribute_strategy = one.extended = one
        one._num_workers = 4
        one.fit(2, Unknown())
        """)
    assert [m.examples for m in marks[::2]] == [16, 16, 16, 15] * 2 + [16] * 3 + [15, 16, 16] + [4] * 3 + [
        None
    ] * 3


def test_fit_in_a_callback_of_another_takes_nothing_from_it(arrays: Site) -> None:
    marks, _ = arrays.run(f"""{MINE}
        probe, calls = Mine(), []
        def between():
            calls.append(1)
            if len(calls) == 2: probe.fit(3, Unknown())
        Mine().fit(12, Unknown(), between=between)
        """)
    assert steps(marks) == windows(*range(15))
    assert [m.examples for m in marks[::2]] == [16, 16, *[16] * 3, 16, 15, *[16, 16, 16, 15] * 2]


def test_what_happens_between_calls_is_in_the_step_of_the_rank_that_does_it(keras_2: Site) -> None:
    said = run(
        keras_2,
        f"""
        import time
        from {KERAS_2} import Model
        Model().fit(2, epochs=2, between=lambda: time.sleep(0.02))
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2, 3)
    (_, end), second, (third, _), fourth = stretches(said.marks)
    assert second[0] == end and second[1] - second[0] > 20_000_000
    assert third > second[1], "an epoch begins with its own call: what lies before is no step"
    assert fourth[1] - fourth[0] > 20_000_000
    assert [span[1:3] for span in said.of("between.other")] == [(second[1], third)]
    assert len(said.of("phase.call")) == 4


def test_evaluation_and_checkpoint_lie_between_steps(keras_2: Site) -> None:
    said = run(
        keras_2,
        f"""
        import time
        from {KERAS_2} import Model
        model = Model()
        def between():
            model.evaluate(); time.sleep(0.02); model.save()
        model.fit(3, between=between)
        """,
    )
    assert steps(said.marks) == windows(0, 1, 2)
    first, second, third = stretches(said.marks)
    evaluations, checkpoints, others = (
        [span[1:3] for span in said.of("between." + kind)] for kind in ("evaluation", "checkpoint", "other")
    )
    assert (len(evaluations), len(checkpoints)) == (2, 2), "a call inside another is a part of it"
    for before, after, evaluation, saved in zip(
        (first, second), (second, third), evaluations, checkpoints, strict=True
    ):
        assert before[1] <= evaluation[0] < evaluation[1] < saved[0] < saved[1] <= after[0]
    assert sum(end - begin for begin, end in others) > 40_000_000


def test_step_of_one_batch_ends_when_keras_returns(keras_2: Site) -> None:
    path = keras_2.root / "keras" / "src" / "engine" / "training.py"
    whole = path.read_text()
    path.write_text(
        whole.replace(
            "return self.train_function(Iterator())", "return self.late(self.train_function(Iterator()))"
        )
        + "    def late(self, logs):\n        import time; time.sleep(0.01); return logs\n"
    )
    said = run(
        keras_2,
        f"""
        from {KERAS_2} import Model, Spec
        model = Model()
        for _ in range(3): model.train_on_batch(Spec(8, 3))
        """,
    )
    parts = stretches(said.marks)
    assert len(parts) == 3 and all(end - begin > 10_000_000 for begin, end in parts)
    assert [m.examples for m in said.marks[::2]] == [32] * 3
    assert {m.like for m in said.marks} == {1}


@pytest.mark.slow
def test_evaluation_between_batches_is_in_no_step(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        import time
        from {KERAS_2} import Model
        model = Model()
        model.train_on_batch(); model.train_on_batch()
        model.evaluate()
        model.train_on_batch()
        """)
    first, second, third = stretches(marks)
    assert first[1] == second[0] and second[1] < third[0]


@pytest.mark.slow
def test_two_models_in_turn_step_together(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        one, two = Model(), Model()
        for _ in range(3): one.train_on_batch(); two.train_on_batch()
        two.fit(2)
        """)
    assert steps(marks) == windows(0, 1, 2, 3, 4), "what is fitted is what is trained"
