"""Numbers the closures of a coordinator as steps: of rounds that all workers take, or of each worker alone.

Training that calls `join` (or waits for `done`) after one closure per worker goes in rounds and is
synchronous; training that puts many closures into the queue is asynchronous. Which of the two it is shows
only after a while, so the first windows are held back, at most a few per worker. A worker's step of a
round goes from the end of the round before to the end of its own closure: then it has arrived at the join.
Pure logic: events in, windows to send out.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

SURE_ROUNDS = 2  # joins after which training goes in rounds: the first may have been a warm-up
HELD_PER_WORKER = 8


class Closure(NamedTuple):
    """One closure that a worker ran."""

    worker: int
    begin_ns: int
    end_ns: int
    examples: Optional[int]


class Step(NamedTuple):
    """The step that a closure was."""

    number: int
    asynchronous: bool
    closure: Closure


class _Held(NamedTuple):
    number: int  # of its round
    over_ns: int  # when all closures of the round before were done; 0: not known
    closure: Closure


class Rounds:
    """Follows the queue of one coordinator."""

    def __init__(self) -> None:
        self._asynchronous = False
        self._open = 0  # closures put into the queue since all were done the last time
        self._round = 0
        self._over_ns = 0
        self._small, self._large = 0, 0  # rounds of at most a closure per worker, and of more
        self._held: List[_Held] = []
        self._ended: Dict[int, int] = {}  # worker -> when its newest closure did
        self._own: Dict[int, int] = {}
        self._sent = 0  # rounds whose windows are sent already

    def put(self, workers: int) -> List[Step]:
        """A closure is about to be put into the queue."""
        self._open += 1
        return self._give_up() if self._open > 2 * workers and not self._asynchronous else []

    def finished(self, closure: Closure, workers: int) -> List[Step]:
        """A worker finished a closure."""
        if self._asynchronous:
            return [self._own_step(closure)]
        self._held.append(_Held(self._round, self._over_ns, closure))
        if not self._open or len(self._held) > HELD_PER_WORKER * workers:
            return self._give_up()
        return self._release() if self._small >= SURE_ROUNDS else []

    def waited(self, now_ns: int, workers: int) -> List[Step]:
        """The training has waited until all closures were done."""
        if self._asynchronous or not self._open:
            return []
        if self._open <= workers:
            self._small += 1
        else:
            self._large += 1
        self._open = 0
        self._round += 1
        self._over_ns = now_ns
        return self._release() if self._small >= SURE_ROUNDS else []

    def broken(self) -> None:
        """Something other than training was put into the queue: the next round begins with its closures."""
        self._over_ns = 0

    def ends(self) -> List[Step]:
        """Nothing more will come."""
        in_rounds = self._small > 0 and not self._large
        return self._release() if in_rounds else self._give_up()

    def _release(self) -> List[Step]:
        """Steps of rounds: what lies between two rounds is in the later one."""
        held, self._held = self._held, []
        found = []
        for number, over_ns, closure in held:
            worker, begin_ns, end_ns, examples = closure
            if over_ns:
                # From the end of the round before, or of this worker's closure before this one.
                begin_ns = min(begin_ns, max(over_ns, self._ended.get(worker, 0)))
            self._ended[worker] = end_ns
            self._sent = number + 1
            found.append(Step(number, False, Closure(worker, begin_ns, end_ns, examples)))
        return found

    def _give_up(self) -> List[Step]:
        self._asynchronous = True
        held, self._held = self._held, []
        return [self._own_step(one.closure) for one in held]

    def _own_step(self, closure: Closure) -> Step:
        number = self._own.get(closure.worker, self._sent)
        self._own[closure.worker] = number + 1
        return Step(number, True, closure)
