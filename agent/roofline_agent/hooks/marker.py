"""Sends what hooks find to the agent, has kernels recorded in a sample of the steps (kernel_switch.py), and
prints notes of borders where MKL's verbose lines need them."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, Hashable, Optional, Sequence, Set, Tuple

from . import kernel_switch, onednn_flag
from .signals import raise_again
from .tracing import NO_PAGE, SERIAL_AT, Tracing
from .wrapper import NOTES, WrappedOutput, mapped_page


class NoAccount:
    """In place of roofline_step's, where that is too old to have one."""

    on, next = False, 1 << 62

    def over(self, number: int, now: int) -> None:
        return None


Span = Tuple[str, int, int, Optional[int], int]
SHORT_NS = 50000000  # steps shorter than this are handed over together where hooks can defer() that
DEFERRED_NS = 400000000  # and so long they wait for that: a rank that is killed loses them
CHARGED_NS = 150000  # a step whose thread is measured is taken to cost so much more: of short ones few are
LAST_LOOK = 1000  # a training that has called no kernel of a library until this step calls none
MAX_HELD = 1000  # spans that wait for a mark
MAX_LIKE = 2**16 - 1  # what a mark can carry


class Marker:
    """Sends marks, spans and facts of hooks; no marks once the training marks steps itself."""

    def __init__(self, step: Any, environ: Any = os.environ, profiler: Any = None) -> None:
        self._step = step
        self._training_marks = step.said_by_training
        self._profiler = profiler
        # The training may have an older roofline_step of its own.
        self._send_step = getattr(step, "send_step", None)
        self._send_spans = getattr(step, "send_spans", None)
        self._send_fact = getattr(step, "send_fact", None)
        self._has_like = getattr(step, "HAS_LIKE", False)
        self.account: Any = getattr(step, "thread_account", None) or NoAccount()  # of the training thread
        self._likes: Dict[Hashable, int] = {}
        self._output = WrappedOutput(environ.get("ROOFLINE_STDOUT", ""))
        page = mapped_page(environ.get(NOTES))
        self._noting = page if self._output.stdout else NO_PAGE
        self.tracing = Tracing(page, self.fact)
        self.stall: Optional[Tuple[int, int]] = None  # of the training for a trace, behind the last border
        self.more = False  # the border that is handed over is an older one, and others follow at once
        self._environ = environ
        self._failed: Set[str] = set()  # hooks of which an error was reported
        self.samples_kernels = False
        self._switch: Optional[kernel_switch.KernelSwitch] = None
        # At the end of which step kernels are next switched on or off; at the first it is known what can be.
        samples = environ.get(kernel_switch.SAMPLED) == "sampled"
        self._switch_at = -1 if samples else kernel_switch.NEVER
        self._marked = -1  # steps that the training has marked itself
        self._marked_last: Optional[int] = None  # number of the last of them
        # Where steps are read from the log (`run --step-regex`) marks would count each of them twice.
        self._from_log = environ.get("ROOFLINE_STEPS") == "log"
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # spans held are the parent's to send

    def _reset(self) -> None:
        self._held: Sequence[Span] = ()  # spans that go with the next mark

    def like(self, signature: Hashable) -> int:
        """The number of all steps with this signature: they do the same work, as far as can be known (shapes,
        order of phases, examples). 0, which says nothing, once there are too many."""
        found = self._likes.get(signature)
        if found is None:
            found = len(self._likes) + 1 if len(self._likes) < MAX_LIKE else 0
            if found:
                self._likes[signature] = found
        return found

    def border(
        self,
        number: int,
        examples: Optional[int] = None,
        time_ns: Optional[int] = None,
        like: int = 0,
        begin_ns: Optional[int] = None,
    ) -> None:
        """This rank's step `number` ended, and the next began, at time_ns (monotonic; default now).

        begin_ns: when it began, if something that was no part of it lay between it and the step before.
        """
        if not self._from_log and not self._training_marks():
            self.note()
            now = time.monotonic_ns() if time_ns is None else time_ns
            border = (self._step.BORDER, number, examples, now, None, False, like)
            if begin_ns is None:
                self._send((border,))
            else:
                self._send(((self._step.BEGIN, number, None, begin_ns, None, False, like), border))
            self._behind(number, now)

    def window(
        self,
        number: int,
        begin_ns: int,
        end_ns: int,
        examples: Optional[int] = None,
        of: Optional[Tuple[str, int]] = None,
        asynchronous: bool = False,
        like: int = 0,
    ) -> None:
        """Step `number` of this rank, or of the rank `of`, went from begin_ns to end_ns (monotonic)."""
        if self._from_log or self._training_marks():
            return
        if of is None:
            self.note()
        step = self._step
        begin = (step.BEGIN, number, examples, begin_ns, of, asynchronous, like)
        self._send((begin, (step.END, number, examples, end_ns, of, asynchronous, like)))
        if of is None:
            self._behind(number, end_ns)

    def _behind(self, number: int, now: int) -> None:
        """This rank's step `number` ended at `now`: what is to be done between it and the next."""
        tracing = self.tracing
        if tracing.is_due and not self.more:
            tracing.look(number)
        if number >= self._switch_at and not self.more:
            self.switch_kernels(number, now)
        if self._profiler is not None:
            self._profiler.ended(number, now, more=self.more)
        # Last: whatever else is done here belongs to no trace.
        if number >= tracing.at:
            self.stall = tracing.border(number, now, self.more)

    def traces_with(self, framework: str) -> None:
        """Steps are those of this framework ("torch"), whose profiler is to record them where that is asked
        for."""
        self.tracing.framework = framework

    def take_stall(self) -> Optional[Tuple[int, int]]:
        """When the training stood still behind the border that was handed over last, for a trace."""
        stall, self.stall = self.stall, None
        return stall

    def over(self, number: int, now: int) -> Any:
        """Call it as step `number` is over: what the training thread had in it (roofline_step/_thread.py),
        or None where that is not known."""
        if self._from_log or self._training_marks():
            return None
        return self.account.over(number, now)

    def layout(
        self,
        marks: int,
        names: Sequence[str],
        places: Sequence[int],
        like: int = 0,
        counts: Sequence[int] = (),
    ) -> Any:
        """For `send_layout`, of steps with this `like`: one mark (a border) or two (a window) and spans of
        these names, each of one thing without bytes; places: where in `times` stand the marks' times, then
        begin and end of each span; counts: where the counts of the last spans stand, if they are not of one
        thing. None where the training's own roofline_step is too old for it."""
        make, step = getattr(self._step, "step_layout", None), self._step
        kinds = (step.BORDER,) if marks == 1 else (step.BEGIN, step.END)
        if make is None:
            return None
        if counts:  # of an account, so it is new enough
            return make(kinds, names, places, like, counts)
        return make(kinds, names, places, like) if self._has_like else make(kinds, names, places)

    def send_layout(self, layout: Any, number: int, examples: Optional[int], times: Sequence[int]) -> bool:
        """Send a step as spans() and border() or window() do, of steps that differ in numbers only; False:
        nothing was sent, use those. times: in the layout's places, and last the time when the step ended."""
        if self._held or self._from_log or self._training_marks():
            return False
        if not layout(number, examples, times):
            return False
        if number < self._switch_at and self._noting[0] and not self.samples_kernels:
            self.note()
        tracing = self.tracing
        # At nearly every border there is nothing else to do, and each call would cost as much as all of this.
        if (
            number >= self._switch_at
            or number >= tracing.at
            or tracing.page[SERIAL_AT] != tracing.serial
            or self._profiler is not None
        ):
            self._behind(number, times[-1])
        return True

    def send_layouts(
        self, layout: Any, first: int, examples: Optional[int], steps: Sequence[Sequence[int]]
    ) -> bool:
        """Send several steps as `send_layout` does, which followed on one another, none of them at or behind
        deferred_to()."""
        several = getattr(layout, "several", None)
        if several is None or self._held or self._from_log or self._training_marks():
            return False
        sent = bool(several(first, examples, steps))
        if sent and self.tracing.is_due:
            self.tracing.look(first + len(steps))  # the border behind these is the next that is looked at
        return sent

    def _send(
        self, marks: Sequence[Tuple[int, int, Optional[int], int, Optional[Tuple[str, int]], bool, int]]
    ) -> None:
        held, self._held = self._held, ()
        if not self._has_like:
            marks = [mark[:6] for mark in marks]  # type: ignore[misc]
        if self._send_step is not None:
            self._send_step(marks, held)
            return
        for mark in marks:
            self._step.send_mark(*mark[:6])
        if held and self._send_spans is not None:
            self._send_spans(held)

    def spans(self, spans: Sequence[Span]) -> None:
        """Spans of this rank: (name, begin_ns, end_ns, bytes or None, count) each. Call it once a step, just
        before border() or window(), with which they are sent; where the hooks do not mark, at once.

        name: "phase.input" (of the rank's main thread: input, forward, backward, communicate, optimizer),
        "asked.KIND" (what the framework asked for), "engine.KIND" (what was executed for it).
        """
        together = [*self._held, *spans] if self._held else spans
        if self._from_log or self._training_marks() or len(together) > MAX_HELD:
            self._held = ()
            if together and self._send_spans is not None:
                self._send_spans(together)
        else:
            self._held = together

    def defers(self, call: Any) -> bool:
        """Whether borders may be handed over some steps later, as deferred_to() says; call() does it at the
        end."""
        before_end = getattr(self._step, "before_end", None)
        if before_end is None or self._profiler is not None or self._from_log:
            return False
        before_end(call)
        return True

    def deferred_to(self) -> int:
        """The first step at whose end borders are to be handed over: at the next, something may be to do."""
        if self._noting[0] and not self.samples_kernels:
            return -1
        return min(self._switch_at, self.tracing.at) - 1

    def flush(self) -> None:
        """Send what is held, as the training may end now."""
        send = getattr(self._step, "send_held", None)
        if send is not None:
            send()

    def fact(self, name: str, value: object) -> None:
        """A setting or size of this rank: "gradient.bytes", "hook.NAME", ... The newest value counts."""
        if self._send_fact is not None:
            self._send_fact(name, value)

    def failed(self, hook: str) -> None:
        """For an `except` around what `hook` does in the training: its first error is reported, as what it
        measures may be missing from then on. What a signal's handler has raised goes on to the training."""
        raise_again()
        if hook in self._failed:
            return
        self._failed.add(hook)
        kind, error, _ = sys.exc_info()
        try:
            self.fact("hook." + hook, "failed: %s: %s" % (getattr(kind, "__name__", ""), error))
        except Exception:  # an error that cannot be printed
            raise_again()
            self.fact("hook." + hook, "failed")

    def sample_kernels(self) -> None:
        """A framework is about to be loaded whose libraries can be switched: from now on kernels are recorded
        in a sample of the steps, if the wrapper wants that."""
        if kernel_switch.switchable(self._environ) and not self.samples_kernels:
            self._switch_at = -1
            self.samples_kernels = True  # the libraries are silent already
            self._begin_sample()

    def look_for_switches(self) -> None:
        """A framework has been loaded of whose libraries it is not known yet whether they can be switched:
        find out now, as that would make a step longer."""
        kernel_switch.let_print(self._environ)

    def _begin_sample(self) -> bool:
        """Say that from here on only stretches of which a note says so are recorded. False: stdout goes
        elsewhere now; a wrapper without the note would take silence for idleness."""
        noted = self._output.write(kernel_switch.sample_note("sampled", time.monotonic_ns()))
        if self.samples_kernels or noted:
            self.samples_kernels = True
            self.fact("cost.kernels", "1/%d" % kernel_switch.UNTIL_KNOWN)
        return noted

    def leave_kernels(self) -> None:
        """From now on record no kernels in a sample of the steps: what oneDNN and MKL do is no training."""
        if self.samples_kernels:
            self._switch_at = kernel_switch.NEVER
            if self._switch is not None:
                self._switch.silence()
            self.fact("cost.kernels", "none")

    def training_marked(self, number: int, now: int, next_begins: bool = True) -> None:
        """The training program has marked the end of a step itself; its numbers may start again.

        next_begins: and with it the begin of the next.
        """
        last, self._marked_last = self._marked_last, number
        self._marked += 1
        tracing = self.tracing
        if tracing.is_due:
            tracing.look(number)
        if self._marked >= self._switch_at:
            self.switch_kernels(self._marked, now)
        if number >= tracing.at:
            stall = tracing.border(number, now)
            if stall is not None:
                # A training whose numbers have holes may mark any number next.
                self._stood_still(stall, number + 1 if next_begins and last == number - 1 else None)

    def _stood_still(self, stall: Tuple[int, int], step: Optional[int]) -> None:
        """For a trace, behind a mark of the training: `step`, if any, has begun at that mark but for this."""
        self.spans((("between.trace", stall[0], stall[1], None, 1),))
        if step is not None:
            self._send(((self._step.BEGIN, step, None, stall[1], None, False, 0),))
            starts = getattr(self.account, "starts", None)
            if starts is not None:
                starts(step, stall[1])

    def switch_kernels(self, number: int, end_ns: int) -> None:
        """Step `number` ended at end_ns: its kernels, or those of the next, may be in the sample."""
        try:
            prints = not self.samples_kernels
            if prints and not self._can_sample(number):
                return
            if self._switch is None:
                overhead = float(self._environ.get(kernel_switch.OVERHEAD, "0.005"))
                found = kernel_switch.switches()
                if not prints and self._output.write(b""):
                    kernel_switch.warm_up(found)
                self._switch = kernel_switch.KernelSwitch(
                    found, self._output.write, self.fact, overhead, self._noting
                )
            self._switch_at = self._switch.border(number, end_ns, self.tracing.follows(number))
        except Exception:
            raise_again()
            self._switch_at = kernel_switch.NEVER
            if self._switch is not None:
                self._switch.silence()

    def timed_switch(self) -> Optional[kernel_switch.TimedSwitch]:
        """For a process whose steps end in another; None: its kernels are not sampled."""
        if self._environ.get(kernel_switch.SAMPLED) != "sampled" or self.samples_kernels:
            return None
        return kernel_switch.TimedSwitch(self._output.write, self._noting)

    def _can_sample(self, number: int) -> bool:
        """Whether libraries that print every kernel can be switched after all; their first one tells that."""
        if not onednn_flag.flags():
            self._switch_at = kernel_switch.NEVER
        elif not (kernel_switch.printing() and self._begin_sample()):
            self._switch_at = 2 * number + 2 if number < LAST_LOOK else kernel_switch.NEVER
        return self.samples_kernels

    def variables(self, **variables: object) -> None:
        """Which rank this process is, in the words of a launcher (RANK=3, WORLD_SIZE=8, ...): the agent sees
        its environment only as it was at the start."""
        self.fact("rank.variables", json.dumps({name: str(value) for name, value in variables.items()}))

    def kernel(self, **shape: object) -> Optional[int]:
        """The number by which `calls` names what a library executes; None where it cannot be sent.

        shape: library, operation, precision, implementation, problem, flops, bytes (None: not known), note.
        """
        describe = getattr(self._step, "describe_kernel", None)
        return None if describe is None else describe(**shape)

    def calls(self, calls: Sequence[Tuple[int, int, int]], begin_ns: int, through_ns: int) -> None:
        """Executed kernels of this rank: (number, begin, duration in ns) each; there were no others between
        begin_ns and through_ns."""
        send = getattr(self._step, "send_calls", None)
        if send is not None:
            send(calls, begin_ns, through_ns)

    def note(self) -> None:
        """Print that a step may begin or end here, if the wrapper wants such notes in the output."""
        # MKL's verbose lines carry no time; between two notes the wrapper knows their step all the same.
        if self._output.stdout and self._noting[0] and not self.samples_kernels:
            self._output.write(b"roofline_verbose,mark,%d\n" % time.time_ns())
