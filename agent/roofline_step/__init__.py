"""Marks training steps for the roofline agent on this node.

    import roofline_step

    for k in range(steps):
        with roofline_step.step(k, examples=batch_size):
            with roofline_step.phase("input"):
                batch = next(data)
            train(batch)

or, once an iteration and nothing else: ``roofline_step.mark(k, examples=batch_size)``.

Promises: standard library only; never raises (what a signal's handler raises meanwhile goes on to the
training), never blocks, prints nothing; works in threads and after fork; survives a restart of the agent and
counts what it had to drop; without an agent it does nothing.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Tuple, Type

from ._layout import Layout, layout
from ._numbers import whole
from ._sender import Sender
from ._signals import raise_again  # noqa: F401 - for the hooks
from ._thread import PARTS, ThreadAccount, thread_number
from .packets import Mark, Span

__all__ = ["BEGIN", "BORDER", "END", "mark", "phase", "step"]

BEGIN = 1
END = 2
BORDER = 3
_PHASE_BEGIN = 4
_PHASE_END = 5
# Hooks of a newer agent may meet an older version of this module, which has not these.
HAS_LIKE = True
thread_account = ThreadAccount()  # of the thread that trains, whether the program marks its steps or hooks do

_agent = Sender()
_send = _agent.send
_clock = time.monotonic_ns
_training_marks = False
_UNFIT = "hook.roofline_step"  # the fact that says which number of a mark was left out


def mark(
    step: int,
    examples: Optional[int] = None,
    kind: int = BORDER,
    of: Optional[Tuple[str, int]] = None,
    asynchronous: bool = False,
    time_ns: Optional[int] = None,
) -> None:
    """Mark the end of step number `step` and the begin of the next (`kind` BEGIN or END: only that border).

    step: a whole number; 3.0 is one. A mark with another is not sent.
    examples: number of training examples this rank worked on in the step, if known; rounded.
    of: ``(role, index)`` of the rank whose step it is, when a coordinator marks for its workers.
    asynchronous: steps of different ranks are independent of each other (asynchronous parameter servers).
    time_ns: when it happened, as time.monotonic_ns(); default now.
    """
    global _training_marks
    if type(step) is not int or (examples is not None and type(examples) is not int):
        number, examples = whole(step), _examples_of(examples)
        if number is None:
            _agent.dropped += 1
            _agent.send_fact(_UNFIT, "failed: the step of a mark, %.100r, is no whole number" % (step,))
            return
        step = number
    _training_marks = True
    if of is not None or not _agent.connected:
        _send(kind, step, examples, time_ns, of, asynchronous, "")
        return
    now = _clock() if time_ns is None else time_ns
    if kind == BEGIN:
        thread_account.starts(step, now)
        _send(kind, step, examples, now, None, asynchronous, "")
        return
    found = thread_account.over(step, now)
    if found is None:
        _send(kind, step, examples, now, None, asynchronous, "")
    else:
        _agent.send_step(((kind, step, examples, now, None, asynchronous),), found.spans())


def _examples_of(examples: Any) -> Optional[int]:
    """A step whose examples are not known is better than none."""
    found = None if examples is None else whole(examples, rounded=True)
    if found is None and examples is not None:
        _agent.send_fact(_UNFIT, "the examples of a mark, %.100r, are no number" % (examples,))
    return found


class step:
    """Context manager around one training step. A step left by an exception is not marked as ended."""

    __slots__ = ("_examples", "_step")

    def __init__(self, step: int, examples: Optional[int] = None) -> None:
        self._step = step
        self._examples = examples

    def __enter__(self) -> step:
        mark(self._step, self._examples, BEGIN)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            mark(self._step, self._examples, END)


class phase:
    """Context manager around one part of a step: "input", "forward", "backward", "communicate", ..."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> phase:
        now = _clock()
        if thread_account.on and self._name in PARTS and thread_number() == thread_account.thread:
            now = thread_account.begins(self._name, now)
        _send(_PHASE_BEGIN, -1, None, now, None, False, self._name)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        now = _clock()
        if thread_account.on and self._name in PARTS and thread_number() == thread_account.thread:
            now = thread_account.ends(now)
        _send(_PHASE_END, -1, None, now, None, False, self._name)


# What follows is called by the hooks. They may be of another version than this module, which the training may
# have installed itself, so these names and arguments must stay.


def said_by_training() -> bool:
    """Whether the training program marks its steps itself; hooks mark none then."""
    return _training_marks


def send_mark(
    kind: int,
    step: int,
    examples: Optional[int],
    time_ns: Optional[int],
    of: Optional[Tuple[str, int]],
    asynchronous: bool,
) -> None:
    """What hooks call instead of `mark`: it does not count as a mark of the training program."""
    _send(kind, step, examples, time_ns, of, asynchronous, "")


def send_spans(spans: Sequence[Span]) -> None:
    """Send spans, what this process did between the borders of its steps: (name, begin, end, bytes, count).

    name: "phase.input", "asked.allreduce", ... (docs/metrics.md). begin, end: time.monotonic_ns(). bytes:
    None where unknown. count: how many things of the same kind it stands for.
    """
    _agent.send_spans(spans)


def send_step(marks: Sequence[Mark], spans: Sequence[Span]) -> None:
    """Send a whole step in one packet: its marks, (kind, step, examples, time_ns, of, asynchronous) each as
    `send_mark` takes them, and the spans before them. A seventh value of a mark is its `like`: steps of this
    process with the same number, 1 to 65535, did the same work."""
    _agent.send_step(marks, spans)


def step_layout(
    kinds: Sequence[int],
    names: Sequence[str],
    places: Sequence[int],
    like: int = 0,
    counts: Sequence[int] = (),
) -> Layout:
    """For steps that differ in numbers only: `send_step` in a quarter of its time (see _layout.py)."""
    return layout(_agent, kinds, names, places, like, counts)


def send_held() -> None:
    """Send the short steps that wait for others, to be sent together."""
    _agent.finish_held()


def before_end(call: Callable[[], None]) -> None:
    """Have call() hand over what hooks hold, before the last of what is held is sent."""
    _agent.before_end.append(call)


def send_fact(name: str, value: object) -> None:
    """Send a setting or a size that holds for this process; the newest value of a name counts."""
    _agent.send_fact(name, value)


def describe_kernel(
    library: str,
    operation: str,
    variant: str = "",
    precision: str = "",
    implementation: str = "",
    problem: str = "",
    flops: Optional[int] = None,
    bytes: Optional[int] = None,
    note: str = "",
) -> Optional[int]:
    """The number by which `send_calls` names a kernel of this process; None: it cannot have one."""
    return _agent.describe_kernel(
        (library, operation, variant, precision, implementation, problem, flops, bytes, note)
    )


def send_calls(calls: Sequence[Tuple[int, int, int]], begin_ns: int, through_ns: int) -> None:
    """Send kernels that this process executed, (number, begin, duration in ns) each; no others ran between
    begin_ns and through_ns (time.monotonic_ns())."""
    _agent.send_calls(calls, begin_ns, through_ns)
