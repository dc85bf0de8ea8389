"""TensorFlow's and Keras' hooks: their logic, and on made-up frameworks in real processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks import tf_payload
from roofline_agent.hooks.keras_batches import Cut
from roofline_agent.hooks.tf_rounds import Closure, Rounds, Step
from roofline_agent.hooks.tf_steps import PATIENCE, Steps

from tests.fakes import AGENT, MarkPacket, clean_environ, decode_mark, decode_spans

from .test_hooks import BEGIN, COORDINATOR, END, Cuda, Site, cuda, site, steps, windows

__all__ = ["cuda", "site"]

IMPORT = f"from {COORDINATOR} import *; from {COORDINATOR} import _CoordinatedClosureQueue"
KERAS_2 = "keras.src.engine.training"
KERAS_3 = "keras.src.backend.tensorflow.trainer"
FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
TAPE = "tensorflow.python.eager.backprop"
ITERATOR = "tensorflow.python.data.ops.iterator_ops"
PLACEMENT = "tensorflow.python.distribute.parameter_server_strategy_v2"


class Said(NamedTuple):
    """All that a program told the agent, and what it printed."""

    marks: list[MarkPacket]
    spans: list[tuple[str, int, int]]
    facts: dict[str, str]
    out: str


def run(site: Site, code: str) -> Said:
    """A program that must end well and say nothing else; like `Site.run`, with spans and facts."""
    done = subprocess.run(
        [*AGENT, "run", "--", sys.executable, "-c", textwrap.dedent(code)],
        env=clean_environ(ROOFLINE_SOCKET=str(site.agent.path), PYTHONPATH=str(site.root)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    packets = site.agent.poll(0.3)
    marks = [decode_mark(pid, data) for pid, data in packets if data[:1] == b"M"]
    spans = [tuple(span[:3]) for _, data in packets if data[:1] == b"S" for span in decode_spans(data)]
    facts = dict(data[4:].decode().split("=", 1) for _, data in packets if data[:1] == b"F")
    return Said(marks, spans, facts, done.stdout)


def stretches(marks: list[MarkPacket]) -> list[tuple[int, int]]:
    """(begin, end) of the steps, in order."""
    return [
        (begin.time_ns, end.time_ns)
        for begin, end in zip(marks[::2], marks[1::2], strict=True)
        if begin.kind == BEGIN and end.kind == END and begin.step == end.step
    ]


# --- rounds of a coordinator -----------------------------------------------------------------------------


class Queue:
    """A coordinator's queue and its workers, and the steps that were told."""

    def __init__(self, workers: int) -> None:
        self.workers, self.rounds, self.told = workers, Rounds(), list[Step]()
        self.time = self.serial = 0

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            self.told += self.rounds.put(self.workers)

    def finish(self, *workers: int) -> None:
        for worker in workers:
            self.time += 10
            self.serial += 1
            closure = Closure(worker, self.time - 8, self.time, self.serial)
            self.told += self.rounds.finished(closure, self.workers)

    def wait(self) -> None:
        self.time += 10
        self.told += self.rounds.waited(self.time, self.workers)

    def round(self, *workers: int) -> None:
        self.put(len(workers))
        self.finish(*workers)
        self.wait()

    def ends(self) -> None:
        self.told += self.rounds.ends()

    def numbers(self) -> list[tuple[int, int]]:
        return [(step.closure.worker, step.number) for step in self.told]

    def modes(self) -> set[bool]:
        return {step.asynchronous for step in self.told}


def test_waiting_for_a_closure_of_every_worker_is_a_round() -> None:
    queue = Queue(2)
    for _ in range(3):
        queue.round(0, 1)
    queue.ends()
    assert queue.numbers() == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert queue.modes() == {False}


def test_worker_may_run_two_closures_of_a_round_and_another_none() -> None:
    queue = Queue(2)
    for workers in ((0, 1), (1, 1), (0, 0)):
        queue.round(*workers)
    assert queue.numbers() == [(0, 0), (1, 0), (1, 1), (1, 1), (0, 2), (0, 2)]
    assert queue.modes() == {False}


def test_marks_of_known_rounds_are_not_held_back() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.put(2)
    queue.finish(0, 1)
    assert queue.told == [], "one round may be a warm-up"
    queue.wait()
    assert len(queue.told) == 4
    queue.put(2)
    queue.finish(1)
    assert len(queue.told) == 5


def test_rounds_follow_each_other_without_a_gap() -> None:
    """What the chief does between two rounds all workers wait for: it is in the later one."""
    queue = Queue(2)
    for workers in ((0, 1), (0, 1), (1, 1)):
        queue.round(*workers)
    spans = [(step.closure.worker, step.closure.begin_ns, step.closure.end_ns) for step in queue.told]
    assert spans == [(0, 2, 10), (1, 12, 20), (0, 30, 40), (1, 30, 50), (1, 60, 70), (1, 70, 80)]


def test_what_is_done_between_rounds_besides_training_is_in_no_step() -> None:
    queue = Queue(1)
    queue.round(0)
    queue.rounds.broken()
    queue.round(0)
    queue.round(0)
    assert [step.closure[1:3] for step in queue.told] == [(2, 10), (22, 30), (40, 50)]


def test_long_queue_is_asynchronous_at_once() -> None:
    queue = Queue(2)
    queue.put(4)
    queue.finish(0)
    assert queue.told == []
    queue.put()
    queue.finish(0, 1, 0)
    assert queue.numbers() == [(0, 0), (0, 1), (1, 0), (0, 2)]
    assert queue.modes() == {True}


def test_warm_up_round_before_asynchronous_training_is_asynchronous_too() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.put(20)
    queue.finish(0, 1, 0)
    assert queue.numbers() == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert queue.modes() == {True}


def test_rounds_that_become_asynchronous_go_on_counting() -> None:
    queue = Queue(2)
    for _ in range(2):
        queue.round(0, 1)
    queue.put(5)
    queue.finish(1, 1, 0)
    queue.wait()
    queue.round(0, 1)
    assert [(s.closure.worker, s.number, s.asynchronous) for s in queue.told[4:]] == [
        (1, 2, True),
        (1, 3, True),
        (0, 2, True),
        (0, 3, True),
        (1, 4, True),
    ]


def test_waiting_for_nothing_is_ignored() -> None:
    queue = Queue(2)
    for _ in range(3):
        queue.wait()
        queue.round(0, 1)
        queue.wait()
    assert {number for _, number in queue.numbers()} == {0, 1, 2}


def test_epochs_of_a_few_closures_are_asynchronous() -> None:
    """Five closures for three workers, then a join, and again: in between nobody waits for anybody."""
    queue = Queue(3)
    for _ in range(4):
        queue.round(0, 1, 2, 0, 1)
    queue.ends()
    assert queue.modes() == {True}
    assert queue.numbers()[-3:] == [(2, 3), (0, 7), (1, 7)]
    assert len(queue.told) == 20


def test_warm_up_round_and_short_epochs_are_asynchronous() -> None:
    queue = Queue(3)
    queue.round(0, 1, 2)
    queue.round(0, 1, 2, 0, 1)
    queue.ends()
    assert queue.modes() == {True}


def test_single_round_is_told_when_the_process_ends() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.ends()
    assert queue.told == [Step(0, False, Closure(0, 2, 10, 1)), Step(0, False, Closure(1, 12, 20, 2))]


def test_closure_nobody_put_is_its_workers_own() -> None:
    queue = Queue(1)
    queue.finish(0, 0)
    assert queue.numbers() == [(0, 0), (0, 1)] and queue.modes() == {True}


@given(
    st.integers(1, 4),
    st.lists(st.one_of(st.just("wait"), st.integers(1, 12)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_no_closure_is_lost_told_twice_or_held_in_numbers(
    workers: int, events: list[Any], random: Any
) -> None:
    queue, finished = Queue(workers), 0
    for event in events:
        if event == "wait":
            queue.wait()
            continue
        queue.put(event)
        queue.finish(*(random.randrange(workers) for _ in range(event)))
        finished += event
        assert finished - len(queue.told) <= 8 * workers
    queue.ends()
    assert [step.closure.examples for step in queue.told] == list(range(1, finished + 1))
    for worker in range(workers):
        own = [step for step in queue.told if step.closure.worker == worker]
        numbers = [step.number for step in own if step.asynchronous]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        assert [step.number for step in own] == sorted(step.number for step in own)


# --- steps of a process ----------------------------------------------------------------------------------


class Recorder:
    """A marker that remembers."""

    def __init__(self) -> None:
        self.windows: list[tuple[int, int, int, int | None]] = []
        self.phases: list[tuple[str, int, int]] = []

    def layout(self, *_: Any) -> None:
        """Every step is told by itself."""

    def window(self, number: int, begin_ns: int, end_ns: int, examples: int | None = None) -> None:
        self.windows.append((number, begin_ns, end_ns, examples))

    def spans(self, spans: list[tuple[str, int, int, int | None, int]]) -> None:
        self.phases += [span[:3] for span in spans]


class Key:
    """Something trained."""


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_step_goes_from_the_end_of_the_last_to_the_end_of_its_call(recorder: Any) -> None:
    chain, key = Steps(), Key()
    chain.ended(recorder, key, 10, 15, 4)
    chain.took("it", 4, 40, 50)
    chain.ended(recorder, key, 52, 60, None)
    assert recorder.windows == [(0, 10, 15, 4), (1, 15, 60, 4)]
    assert recorder.phases == [("phase.call", 10, 15), ("phase.input", 40, 50), ("phase.call", 52, 60)]


class AlikeRecorder(Recorder):
    """Takes steps that are alike as what they stand for."""

    alikes = 0

    def layout(self, marks: int, names: Any, places: Any) -> Any:  # type: ignore[override]
        assert marks == 2
        return names, places

    def alike(self, layout: Any, number: int, examples: int | None, times: list[int]) -> bool:
        names, places = layout
        first, last, *of_spans = (times[place] for place in places)
        self.phases += zip(names, of_spans[::2], of_spans[1::2], strict=True)
        self.window(number, first, last, examples)
        self.alikes += 1
        return True


@given(st.lists(st.tuples(st.sampled_from(["take", "call", "other", "break", "inside"]), st.integers(1, 9))))
def test_steps_that_are_alike_tell_what_they_would_tell_otherwise(acts: list[tuple[str, int]]) -> None:
    told = []
    for recorder in (Recorder(), AlikeRecorder()):
        chain, key, other, now = Steps(), Key(), Key(), 0
        for act, after in acts:
            now += after
            if act == "take":
                chain.took("it", after, now, now + 2)
            elif act == "break":
                chain.broken()
            else:
                if act == "inside":
                    chain.took("it", after, now + 1, now + 2)
                chain.ended(recorder, other if act == "other" else key, now, now + 5)  # type: ignore[arg-type]
            now += 5
        told.append((recorder.windows, recorder.phases))
    assert told[0] == told[1]


def test_step_with_its_input_before_it_is_told_at_once() -> None:
    recorder, chain, key = AlikeRecorder(), Steps(), Key()
    for at in range(0, 300, 100):
        chain.took("it", 4, at + 1, at + 9)
        chain.ended(recorder, key, at + 10, at + 90)  # type: ignore[arg-type]
    assert recorder.alikes == 2, "the first begins with its own input"
    assert recorder.windows == [(0, 1, 90, 4), (1, 90, 190, 4), (2, 190, 290, 4)]


def test_after_a_break_a_step_begins_with_its_own_input(recorder: Any) -> None:
    chain, key = Steps(), Key()
    chain.took("it", 4, 1, 2)
    chain.took("it", 4, 8, 9)
    chain.ended(recorder, key, 10, 15)
    chain.broken()
    chain.took("it", 4, 100, 109)
    chain.ended(recorder, key, 110, 120)
    chain.broken()
    chain.ended(recorder, key, 130, 140)
    assert [window[:3] for window in recorder.windows] == [(0, 8, 15), (1, 100, 120), (2, 130, 140)]
    assert ("phase.input", 1, 2) not in recorder.phases


def test_examples_of_two_iterators_are_not_added(recorder: Any) -> None:
    chain, key, real, noise = Steps(), Key(), [1], [2]
    chain.took(real, 4, 1, 2)
    chain.took(real, 4, 2, 3)
    chain.ended(recorder, key, 3, 4)
    chain.took(real, 4, 5, 6)
    chain.took(noise, 4, 6, 7)
    chain.ended(recorder, key, 7, 8)
    chain.took(real, None, 8, 9)
    chain.ended(recorder, key, 9, 10)
    assert [window[3] for window in recorder.windows] == [8, None, None]


def test_of_two_that_take_turns_the_first_makes_the_steps(recorder: Any) -> None:
    chain, one, two = Steps(), Key(), Key()
    for at in range(0, 100, 20):
        chain.ended(recorder, one, at, at + 5)
        chain.ended(recorder, two, at + 6, at + 10)
    assert [window[:3] for window in recorder.windows] == [
        (0, 0, 5), (1, 5, 25), (2, 25, 45), (3, 45, 65), (4, 65, 85)
    ]  # fmt: skip
    assert recorder.phases[:3] == [("phase.call", 0, 5), ("phase.call", 6, 10), ("phase.call", 20, 25)]


def test_what_is_no_longer_trained_is_followed_by_the_next(recorder: Any) -> None:
    chain, one, two = Steps(), Key(), Key()
    chain.ended(recorder, one, 0, 1)
    for at in range(2, 2 * PATIENCE + 4, 2):
        chain.ended(recorder, two, at, at + 1)
    assert len(recorder.windows) == 2
    del two
    three = Key()
    chain.ended(recorder, three, 50, 51)
    assert [window[0] for window in recorder.windows] == [0, 1, 2], "what is gone is waited for no longer"


def test_phases_do_not_overlap(recorder: Any) -> None:
    """Input taken inside a call, as in Keras run eagerly."""
    chain, key = Steps(), Key()
    chain.took("it", 4, 12, 14)
    chain.took("it", 4, 15, 16)
    chain.ended(recorder, key, 10, 20)
    assert sorted(recorder.phases, key=lambda span: span[1]) == [
        ("phase.call", 10, 12),
        ("phase.input", 12, 14),
        ("phase.call", 14, 15),
        ("phase.input", 15, 16),
        ("phase.call", 16, 20),
    ]


def test_phases_of_a_step_are_bounded_and_keep_their_time(recorder: Any) -> None:
    chain, key = Steps(), Key()
    chain.ended(recorder, key, 0, 1)
    for at in range(10, 4010, 4):
        chain.took("it", 4, at, at + 1)
    chain.ended(recorder, key, 5000, 5001)
    inputs = [end - begin for name, begin, end in recorder.phases if name == "phase.input"]
    assert len(recorder.phases) < 200
    assert sum(inputs) == 1000
    assert recorder.windows[1] == (1, 1, 5001, 4000)


# --- payload ---------------------------------------------------------------------------------------------


def test_payload_is_told_by_server_and_size_class() -> None:
    sizes = [(0, 40), (0, 1023), (0, 1024), (2, 1 << 20), (2, (1 << 20) - 1)]
    assert dict(tf_payload.facts(sizes, 3)) == {
        "payload.ps:0.small": "2/1063",
        "payload.ps:0.medium": "1/1024",
        "payload.ps:0.large": "0/0",
        "payload.ps:0.total": "3/2087",
        "payload.ps:1.small": "0/0",
        "payload.ps:1.medium": "0/0",
        "payload.ps:1.large": "0/0",
        "payload.ps:1.total": "0/0",
        "payload.ps:2.small": "0/0",
        "payload.ps:2.medium": "1/1048575",
        "payload.ps:2.large": "1/1048576",
        "payload.ps:2.total": "2/2097151",
        "gradient.bytes": "2099238",
        "gradient.tensors": "5",
    }


def test_variables_are_told_when_they_changed(coordinator: Site) -> None:
    coordinator.module(
        PLACEMENT,
        """
        class Shape:
            def __init__(self, n): self.n = n
            def num_elements(self): return self.n
        class Type:
            def __init__(self, size, is_integer): self.size, self.is_integer = size, is_integer
        class Variable:
            def __init__(self, n, ps, trainable=True, counter=False):
                self.shape, self.trainable, self.dtype = Shape(n), trainable, Type(4, counter)
                self.device = "/job:ps/replica:0/task:%d/device:CPU:0" % ps if ps is not None else ""
        class Sharded:
            def __init__(self, *shards): self.variables = shards
        class ParameterServerStrategyV2Extended:
            _num_ps = 2
            def _create_variable(self, next_creator, **kwargs): return next_creator(**kwargs)
        """,
    )
    said = run(
        coordinator,
        f"""
        {IMPORT}
        from {PLACEMENT} import *
        create = ParameterServerStrategyV2Extended()._create_variable
        kept = [create(Variable, n=10, ps=0), create(Variable, n=7, ps=0, trainable=False),
                create(Variable, n=1, ps=0, counter=True),
                create(lambda: Sharded(Variable(300, 0), Variable(300, 1))), create(Variable, n=3, ps=None),
                create(lambda: "odd")]
        create(Variable, n=99, ps=1)
        queue = _CoordinatedClosureQueue()
        train(Worker(0, queue))
        kept.append(create(Variable, n=1, ps=1))
        train(Worker(0, queue))
        """,
    )
    told = {name: value for name, value in said.facts.items() if not name.startswith("hook.")}
    assert told["payload.ps:0.total"] == "2/1240" and told["payload.ps:0.medium"] == "1/1200"
    assert told["payload.ps:1.total"] == "2/1204" and told["payload.ps:1.small"] == "1/4"
    assert (told["gradient.bytes"], told["gradient.tensors"]) == ("2444", "4")


# --- Keras -----------------------------------------------------------------------------------------------


@pytest.fixture
def keras_2(site: Site) -> Site:
    """Model.make_train_function keeps what it made and returns it; fit asks for it each time."""
    site.module(
        KERAS_2,
        """
        class Spec:
            def __init__(self, *shape): self.shape = shape
        class Iterator:
            element_spec = (Spec(32, 8), Spec(32,))
        class Model:
            train_function = None
            def __init__(self, steps=1): self._steps_per_execution = steps
            def make_train_function(self, force=False):
                if self.train_function is not None and not force: return self.train_function
                def function(iterator): return {"loss": 1}
                function.name = "mine"
                self.train_function = function
                return function
            def reset_metrics(self): pass
            def evaluate(self): self.reset_metrics()
            def train_on_batch(self):
                self.reset_metrics()
                self.train_function = self.make_train_function()
                return self.train_function(Iterator())
            def fit(self, steps, iterator=None, epochs=1, between=lambda: None):
                self.train_function = self.make_train_function()
                for _ in range(epochs):
                    self.reset_metrics()
                    for _ in range(steps): logs = self.train_function(iterator or Iterator()); between()
                return logs
        """,
    )
    return site


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


def test_several_steps_in_one_call_have_all_their_examples(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        class Variable:
            def numpy(self): return 5
        Model(Variable()).fit(1)
        """)
    assert [m.examples for m in marks] == [160, 160]


@pytest.mark.parametrize("shape", ["(None, 8)", "()", "'x'"])
def test_batch_size_that_is_not_static_is_not_said(keras_2: Site, shape: str) -> None:
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
    assert (steps(marks), out) == (windows(0, 1, 2), "[7, 7] [7]\n")


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


def test_arrays_cut_into_batches_are_counted(keras_2: Site) -> None:
    path = keras_2.root / "keras" / "src" / "engine" / "training.py"
    path.write_text(path.read_text() + textwrap.dedent(ARRAYS))
    marks, _ = keras_2.run(f"""
        import sys
        from {KERAS_2} import Model, Unknown
        keras = sys.modules["{KERAS_2}"]
        class Mine(Model):
            def make_train_function(self):
                keras.data_adapter.get_data_handler(model=self)
                return super().make_train_function()
        Mine().fit(4, Unknown(), epochs=2)
        Mine(3).fit(2, Unknown())
        one = Mine(3)
        one.distribute_strategy = one.extended = one
        one._num_workers = 4
        one.fit(2, Unknown())
        """)
    assert [m.examples for m in marks[::2]] == [16, 16, 16, 15] * 2 + [48, 15 + 32, 12, None]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 30), st.integers(0, 30))
def test_examples_of_arrays_add_up(batch: int, last: int, batches: int, first: int, count: int) -> None:
    cut = Cut(batch, last, batches)
    each = [last if n % batches == batches - 1 else batch for n in range(first, first + count)]
    assert cut.examples(first, count) == sum(each)


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
    assert [name for name, _, _ in said.spans] == ["phase.call"] * 4


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


def test_two_models_in_turn_step_together(keras_2: Site) -> None:
    marks, _ = keras_2.run(f"""
        from {KERAS_2} import Model
        one, two = Model(), Model()
        for _ in range(3): one.train_on_batch(); two.train_on_batch()
        two.fit(2)
        """)
    assert steps(marks) == windows(0, 1, 2, 3, 4), "what is fitted is what is trained"


# --- loops written by hand -------------------------------------------------------------------------------


@pytest.fixture
def eager(site: Site) -> Site:
    """A function runs its Python only when it is traced; a tape gives gradients, an iterator batches."""
    site.module(
        TAPE,
        """
        class Graph:
            def __init__(self, outer=None):
                if outer is not None: self.outer_graph = outer
        class context:
            eager = True
            def executing_eagerly(): return context.eager
        class ops:
            graph = Graph()
            def get_default_graph(): return ops.graph
        class Shape:
            def num_elements(self): return 10
        class Type: size = 4
        class Variable: trainable, shape, dtype = True, Shape(), Type
        class Tensor:
            def __init__(self, *shape): self.shape = shape
        class GradientTape:
            def __enter__(self): return self
            def __exit__(self, *_): pass
            def gradient(self, target, sources, output_gradients=None): return [target] * len(sources)
        """,
    )
    site.module(
        FUNCTION,
        f"""
        from {TAPE} import context, ops, Graph
        class Function:
            def __init__(self, python): self.python, self.traced = python, False
            def __call__(self, *args, **kwargs):
                if not self.traced: self.trace(args, kwargs)
                return "ran"
            def get_concrete_function(self, *args, **kwargs): self.trace(args, kwargs)
            def trace(self, args, kwargs):
                eager, outer, context.eager, ops.graph = context.eager, ops.graph, False, Graph(ops.graph)
                self.python(*args, **kwargs)
                context.eager, ops.graph, self.traced = eager, outer, True
        """,
    )
    site.module(
        ITERATOR,
        f"""
        from {TAPE} import context, Tensor
        class errors:
            class OutOfRangeError(Exception): pass
        class OwnedIterator:
            def __init__(self, batches): self.left = batches
            def __iter__(self): return self
            def _next_internal(self):
                if not self.left: raise errors.OutOfRangeError
                self.left -= 1
                return Tensor(4, 3), Tensor(4)
            def __next__(self):
                try: return self._next_internal()
                except errors.OutOfRangeError: raise StopIteration
        """,
    )
    return site


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


def test_outermost_function_is_the_step(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        inner = Function(train)
        outer = Function(lambda x: inner(x))
        for _ in range(3): outer(Tensor(2, 2))
        """)
    assert steps(marks) == windows(0, 1, 2)


def test_function_traced_beforehand_is_the_step(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        step = Function(train)
        step.get_concrete_function(Tensor(2, 2))
        for _ in range(2): step(Tensor(2, 2))
        """)
    assert steps(marks) == windows(0, 1)


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


def test_gradient_with_respect_to_an_input_trains_nothing(eager: Site) -> None:
    marks, _ = eager.run(f"""{LOOP}
        attack = Function(lambda x: train(of=x))
        for _ in range(2): attack(Tensor(2, 2)); train(of=Tensor(2, 2)); train(of=[])
        """)
    assert marks == []


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
    names = [name for name, _, _ in said.spans]
    assert names == [
        "phase.input",
        "phase.backward",
        "phase.backward",
        "phase.input",
        "phase.backward",
    ] * 2 or (names.count("phase.input") == 4)
    one, two, three, four = stretches(said.marks)
    assert one[1] == two[0] and two[1] < three[0] and three[1] == four[0]
    assert one[0] == said.spans[0][1], "a first step begins with its input"


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
    names = [name for name, _, _ in said.spans]
    assert names == ["phase.input", "phase.call"] * 4
    one, two, three, _ = stretches(said.marks)
    assert one[1] == two[0] and two[1] < three[0], "evaluation and the end of an epoch are in no step"
    for (_, begin, end), after in pairwise(said.spans):
        assert begin <= end <= after[1]


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
    assert {name for name, _, _ in said.spans} == {"phase.call"}


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


def test_arguments_nobody_understands_stay_inside(eager: Site) -> None:
    marks, out = eager.run(f"""{LOOP}
        class Odd:
            @property
            def shape(self): raise RuntimeError
        step = Function(train)
        print(step(Odd()), step(Tensor(None, 3)), step(x={{"a": [Tensor(5, 1)]}}))
        """)
    assert out == "ran ran ran\n"
    assert [(m.step, m.examples) for m in marks[::2]] == [(0, None), (1, None), (2, 5)]


# --- the coordinator -------------------------------------------------------------------------------------


@pytest.fixture
def coordinator(site: Site) -> Site:
    """A worker runs a closure; with its result it says mark_finished, on failure the closure is put back."""
    site.module(
        COORDINATOR,
        """
        class _CoordinatedClosureQueue:
            def __init__(self): self.finished = self.back = 0
            def put(self, closure, tag=None): pass
            fail = False
            def wait(self, timeout=None):
                if self.fail: raise RuntimeError("closure")
                return timeout is None
            def done(self): return True
            def mark_finished(self): self.finished += 1
            def put_back(self): self.back += 1
        class Worker:
            def __init__(self, index, queue): self.worker_index, self.queue = index, queue
            def _process_closure(self, closure):
                try: closure.run()
                except ValueError: self.queue.put_back()
                else: self.queue.mark_finished()
        class _Graph: pass
        class Closure:
            def __init__(self, name="step_fn", run=lambda: None, args=(), kwargs=None):
                self._args, self._kwargs, self.run = args, kwargs or {}, run
                self._concrete_function = _Graph()
                self._concrete_function._func_graph = _Graph()
                self._concrete_function._func_graph.name = name
        class Spec:
            def __init__(self, *shape): self.shape = shape
        class Value:
            def __init__(self, n): self._type_spec = _Graph(); self._type_spec._element_spec = (Spec(n, 3),)
        class PerWorker:
            def __init__(self, *sizes): self._values = [Value(n) for n in sizes]
        def fail(): raise ValueError
        def train(worker, **options):
            closure = Closure(**options)
            worker.queue.put(closure)
            worker._process_closure(closure)
        """,
    )
    return site


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


def test_closure_nobody_understands_still_runs(coordinator: Site) -> None:
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


def test_marks_held_back_are_sent_when_the_process_ends(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        train(Worker(0, queue)); train(Worker(1, queue))
        queue.wait()
        """)
    assert [(m.index, m.step, m.asynchronous) for m in marks[::2]] == [(0, 0, False), (1, 0, False)]


def test_wait_that_timed_out_is_no_round(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for _ in range(5): train(worker); queue.wait(1)
        """)
    assert [m.step for m in marks[::2]] == [0, 1, 2, 3, 4]
    assert {m.asynchronous for m in marks} == {True}


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


def test_preparation_of_a_worker_is_no_closure_of_a_round(coordinator: Site) -> None:
    marks, _ = coordinator.run(f"""
        {IMPORT}
        queue = _CoordinatedClosureQueue()
        worker = Worker(0, queue)
        for _ in range(9): queue.put(Closure(), tag=0)
        for _ in range(2): train(worker); queue.wait()
        """)
    assert (steps(marks), {m.asynchronous for m in marks}) == (windows(0, 1), {False})


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
