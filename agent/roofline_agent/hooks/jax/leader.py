"""JAX: which of the functions that are called makes the steps, and what the calls of the others are.

Pure logic: calls that have ended in, what they turned out to be out. That may become known only later.

Among the functions whose results are their own next arguments, as parameters are, the one that does the most
work leads: its calls are the steps. Other calls belong to the step that ends next, except that a heavy one
that does not occur in the usual step (an evaluation) belongs to no step.

The results of an evaluation may be its next arguments too, as metrics are, and another training may follow.
A function that is called alone for a while and does as much work trains now. One that does less may train:
its calls are kept. If the function that trained is called again, the other was an evaluation or a part of a
step; if it is not called for long, or the process ends, the kept calls were steps. If FLOPs are not known, a
function that is called alone for a while trains.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Union

from .called import UNKNOWN, CalledFunction, EndedCall

ENOUGH_CALLS = 3  # of a function, before it is chosen
PATIENCE = 8  # calls of another training function after which the first may be no longer trained
MORE = 2  # times the FLOPs of a step are clearly more
FEW = 4  # one that was called at the end less than a quarter as often as there are steps evaluates
MOST_EARLY = 2048
HEAVY = 0.05  # of the FLOPs of a step


class Elected(NamedTuple):
    """This function leads from now on."""

    function: CalledFunction
    since_ns: Optional[int]  # its first call, where another led before


class JaxStep(NamedTuple):
    """A call of the leader."""

    call: EndedCall
    followed: bool  # by other calls that had ended when it became known


class Evaluation(NamedTuple):
    """A call that belongs to no step, unless its function is elected later."""

    call: EndedCall


Outcome = Union[Elected, JaxStep, Evaluation]


class Election:
    """The election of one process."""

    def __init__(self) -> None:
        self.leader: Optional[CalledFunction] = None
        self.early: List[EndedCall] = []  # before the leader was chosen
        self._others: List[EndedCall] = []  # calls of other functions since the leader's last
        self._others_flops = 0
        self._waiting: List[CalledFunction] = []  # of these, the ones that train if the leader does no more
        self._first = 0  # step of this leader
        self._number = -1  # of the last step
        self._usual_flops = 0  # of what belongs to the next step, but trains nothing
        self._most_usual_flops = 0  # the most that this was in a step of this leader
        self._followed = False  # calls have ended behind the one that is placed
        self._outcomes: List[Outcome] = []

    def add(self, ended: EndedCall) -> List[Outcome]:
        """A call has ended, after all that were added before."""
        if self.leader is not None:
            self._place(ended)
        else:
            if len(self.early) >= MOST_EARLY:
                del self.early[: MOST_EARLY // 2]
            self.early.append(ended)
            if ended.program.function.feeds_back:
                self._choose(ENOUGH_CALLS)
        return self._taken()

    def replace(self, function: CalledFunction, since_ns: int) -> List[Outcome]:
        """The leader, if there is one, trains no more, but this function has since then."""
        if self.leader is not None and self.leader is not function:
            self._lead(function, since_ns)
        return self._taken()

    def finish(self) -> List[Outcome]:
        """The process ends."""
        self._choose(1)
        while self._follow(self.steps_led() // FEW):
            pass
        return self._taken()

    @property
    def step_flops(self) -> float:
        """FLOPs of the largest steps, as the last one of an epoch may be small; UNKNOWN."""
        return UNKNOWN if self.leader is None else self.leader.flops + self._most_usual_flops

    def steps_led(self) -> int:
        """How many steps this leader has made."""
        return self._number + 1 - self._first

    def _taken(self) -> List[Outcome]:
        found, self._outcomes = self._outcomes, []
        return found

    def _choose(self, enough: int) -> None:
        """Make a function that trains the leader, once one has been called often enough."""
        if self.leader is not None:
            return
        calls: Dict[CalledFunction, List[int]] = {}
        for ended in self.early:
            function = ended.program.function
            if function.feeds_back:
                calls.setdefault(function, []).append(ended.program.flops or 0)
        if max(map(len, calls.values()), default=0) < enough:
            return
        most = max(map(len, calls.values()))
        # One that is called now and then is no step, whatever it does.
        often = [function for function, flops in calls.items() if 2 * len(flops) >= most - 1]
        self._lead(max(often, key=lambda function: max(calls[function])), None)
        early, self.early = self.early, []
        while early and early[0].program.function is not self.leader:
            early.pop(0)
        self._place_all(early)

    def _lead(self, function: CalledFunction, since_ns: Optional[int]) -> None:
        self.leader, function.led = function, True
        self._others, self._others_flops, self._waiting = [], 0, []
        self._usual_flops = self._most_usual_flops = 0
        self._first = self._number + 1
        self._outcomes.append(Elected(function, since_ns))

    def _place_all(self, calls: List[EndedCall]) -> None:
        followed = self._followed
        for ended in calls:
            self._followed = followed or ended is not calls[-1]
            self._place(ended)

    def _place(self, ended: EndedCall) -> None:
        function = ended.program.function
        if function is self.leader:
            if self._others:
                self._others, self._others_flops = [], 0
                while self._waiting:
                    self._waiting.pop().passes = True
            self._step(ended)
            return
        if function.seen_after != self._number:
            # Of the usual step is what was called in one of the two before, too.
            function.usual = self._number - max(function.seen_after, self._first - 1) <= 2
            function.seen_after = self._number
            function.calls, function.flops_before = 0, self._others_flops
        function.calls += 1
        flops = ended.program.flops
        self._others.append(ended)
        if function.feeds_back and self._has_replaced(function, flops):
            return
        self._others_flops += flops or 0
        if len(self._others) >= MOST_EARLY:
            if self._follow(PATIENCE):
                return
            del self._others[: MOST_EARLY // 2]
        if function.usual:
            self._usual_flops += 0 if function.feeds_back else flops or 0
        elif flops is None or not flops < HEAVY * self.step_flops:
            self._outcomes.append(Evaluation(ended))

    def _step(self, ended: EndedCall) -> None:
        self._number += 1
        if self._usual_flops:
            # In the first two steps everything seems usual.
            if self._usual_flops > self._most_usual_flops or self._number - self._first < 3:
                self._most_usual_flops = self._usual_flops
            self._usual_flops = 0
        self._outcomes.append(JaxStep(ended, self._followed))

    def _has_replaced(self, function: CalledFunction, flops: Optional[int]) -> bool:
        """Another function that trains was called: whether it makes the steps from now on."""
        step, leader = self.step_flops, self.leader
        if function.calls >= PATIENCE:
            since = self._others_flops - function.flops_before
            if not function.passes and (flops is None or not since < step * (function.calls - 1)):
                # One that waits may have trained meanwhile.
                return self._follow(self.steps_led() // FEW) or self._replace_leader(function)
            if since >= step * self.steps_led():
                if leader is not None:
                    leader.passes = function.led  # it came and went
                return self._replace_leader(function)
            if function.calls == PATIENCE:
                self._waiting.append(function)
        elif flops and flops >= MORE * step and not function.passes:
            # The two take turns.
            if function.heavier_than is not leader:
                function.heavier, function.heavier_than = 0, leader
            function.heavier += 1
            enough = function.heavier >= PATIENCE and function.heavier * flops >= step * self.steps_led()
            return enough and self._replace_leader(function)
        return False

    def _follow(self, least: int) -> bool:
        """The leader trains no more, so the first that waits does, of those that were called so often:
        whether there is one."""
        for function in self._waiting:
            if not function.passes and function.calls >= least:
                return self._replace_leader(function)
        return False

    def _replace_leader(self, function: CalledFunction) -> bool:
        """Another function has trained since its first call of these."""
        first = next(at for at, one in enumerate(self._others) if one.program.function is function)
        since = self._others[first:]
        self._lead(function, since[0].called_ns)
        self._place_all(since)
        return True
