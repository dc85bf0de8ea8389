"""Does what the server asks of this agent: a sampling interval, a network benchmark, a trace of steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from roofline.v1 import ingest_pb2 as pb

from ..netbench import wire as net_wire
from ..netbench.bench import NetBench
from ..traces.orders import TraceOrder, TraceOutcome
from .encoding import Greeting

MAX_STEP_US = 2**32 - 1

Answer = Callable[[Any], None]  # takes a CommandResult


class Commands:
    """What was asked over one stream, or the next of the same server."""

    def __init__(
        self,
        greeting: Callable[[], Greeting],
        set_interval: Callable[[int, str, int], None],
        net_bench: NetBench | None,
        trace: Callable[[TraceOrder], None] | None,
    ) -> None:
        """As of `Exporter`."""
        self._greeting = greeting
        self._set_interval = set_interval
        self._net_bench = net_bench
        self._trace = trace
        self._slowed = False

    def execute(self, command: Any, answer: Answer) -> None:
        """Do it, and answer. A benchmark or a trace takes its time: it answers later, and more than once."""
        kind = command.WhichOneof("kind")
        if kind == "set_interval":
            asked, fewer = command.set_interval, max(1, command.set_interval.kernels)
            self._slowed = asked.interval_ns > 0 or fewer > 1
            self._set_interval(asked.interval_ns, asked.reason, fewer)
            answer(pb.CommandResult(id=command.id, done=True))
        elif self._net_bench and kind == "stop_net":
            # Elsewhere: an end takes a moment, and pings want an answer.
            threading.Thread(target=self._net_bench.stop, args=(command.stop_net.key,), daemon=True).start()
            answer(pb.CommandResult(id=command.id, done=True))
        elif self._net_bench and kind in ("serve_net", "measure_net"):
            self._measure_network(self._net_bench, command, answer)
        elif self._trace and kind == "trace_steps":
            self._trace(_trace_order(command.id, command.trace_steps, answer))
        else:
            reason = "this agent does not know the command"
            answer(pb.CommandResult(id=command.id, done=False, reason=reason))

    def forget(self) -> None:
        """The stream has ended: whoever asked for something can neither take it back nor get an answer."""
        if self._slowed:
            self._slowed = False
            self._set_interval(0, "", 1)
        if self._net_bench:
            self._net_bench.stop()

    def _measure_network(self, net_bench: NetBench, command: Any, answer: Answer) -> None:
        number, order = command.id, net_wire.order(command, self._greeting().machine.host)
        if order is not None and net_wire.is_for(command, self._greeting().agent):
            net_bench.begin(order, lambda outcome: answer(net_wire.result(number, outcome)))
        else:
            reason = "this ticket is for other agents"
            answer(pb.CommandResult(id=number, done=False, reason=reason))


def _trace_order(number: int, asked: Any, answer: Answer) -> TraceOrder:
    return TraceOrder(
        asked.pid,
        asked.start_ns,
        asked.steps,
        lambda outcome: answer(_outcome(number, outcome)),
        min(asked.step_us, MAX_STEP_US),
    )


def _outcome(number: int, outcome: TraceOutcome) -> Any:
    """The CommandResult of a trace."""
    failed = outcome.is_over and not outcome.recorded
    return pb.CommandResult(
        id=number,
        done=outcome.recorded,
        progress="" if failed else outcome.text,
        reason=outcome.text if failed else "",
    )
