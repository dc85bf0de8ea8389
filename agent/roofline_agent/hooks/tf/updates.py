"""How many updates the calls of one tf.function make: read from the counters of its optimizers.

An optimizer of Keras counts its updates in a variable; if it adds up several gradients for each of them
(accumulation.py), that counts the gradients. Reading it waits for what the device computes, so it is read at
a few calls only: at the first ones, then ever more rarely. Where the updates are made in a loop or under a
condition of the graph, it is read as often as costs 0.2 % of the time, and in between it is computed from the
calls so far. A sum that was read later corrects the computed one, so the numbers add up.
"""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

from .. import Marker
from ..signals import raise_again
from .eager import patch_update
from .steps import steps

MOST_APART = 1024  # calls between two readings
AFFORDABLE = 500  # a reading takes at most this part of the time between two
MOST_OPTIMIZERS = 64
MOST_AWAITED = 16  # calls that take gradients before the first update by another call
MOST_ADDED = 1024  # the same once there was one
MOST_STILL = 256  # readings one after the other that find no update

_now = time.monotonic_ns


class UpdateCounter:
    """The variable in which an optimizer counts its updates."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.user: Any = None  # what was called last and updates by this optimizer

    def variable(self) -> Any:
        """The tf.Variable, of this process's own replica; None where it is not made yet."""
        made: Any = getattr(self.optimizer(), "_iterations", None)
        found = made._value if hasattr(made, "_value") else made  # Keras 3 wraps it
        replicas = getattr(found, "_values", None)
        return replicas[0] if isinstance(replicas, (list, tuple)) and replicas else found

    def read(self) -> Optional[int]:
        """Its value; waits until the device has computed it."""
        try:
            return int(self.variable().numpy())
        except Exception:
            raise_again()
            return None  # not made yet, or on a device of another process


class _Counters:
    """The counters of all optimizers of this process."""

    def __init__(self) -> None:
        self._all: List[UpdateCounter] = []

    def add(self, optimizer: Any) -> None:
        self._all = self.alive()[1 - MOST_OPTIMIZERS :]
        self._all.append(UpdateCounter(optimizer))

    def alive(self) -> List[UpdateCounter]:
        return [one for one in self._all if one.optimizer() is not None]

    def of(self, optimizer: Any) -> Optional[UpdateCounter]:
        return next((one for one in self._all if one.optimizer() is optimizer), None)

    def values(self) -> Dict[int, int]:
        """The value of each now, by identity; those that cannot be read are left out."""
        found = {}
        for one in self.alive():
            value = one.read()
            if value is not None:
                found[id(one)] = value
        return found

    def captured(self, graph: Any) -> List[UpdateCounter]:
        """The counters that the graph of a function uses."""
        handles = {id(external) for external, _ in graph.captures}
        return [one for one in self.alive() if id(getattr(one.variable(), "handle", None)) in handles]


counters = _Counters()


def patch(module: Any, marker: Marker) -> None:
    """module: one that defines the base class of the optimizers of Keras."""
    names = ("BaseOptimizer", "_BaseOptimizer", "OptimizerV2")
    owner = next((getattr(module, name) for name in names if hasattr(module, name)), None)
    if owner is None:  # Keras 3 has a module of this name, too, with the base class elsewhere
        return
    create = owner.__init__

    @functools.wraps(create)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        try:
            counters.add(self)
        except Exception:
            marker.failed("tf_updates")

    owner.__init__ = __init__
    patch_update(owner, marker)


class UpdatesElsewhere:
    """Of a function that takes gradients for an optimizer that is called somewhere else: in another function,
    or in no function at all."""

    def __init__(self, static: int) -> None:
        """static: as of UpdatesOfCalls, if nobody updates."""
        self._static, self._seen, self._left = static, steps.updates_elsewhere, MOST_AWAITED

    def calm_calls(self) -> int:
        """None: updates belong to calls that came before them."""
        return 0

    def made(self, call_ns: int) -> int:
        """A call of this length ended: how many updates belong to it."""
        if steps.updates_elsewhere != self._seen:
            self._seen, self._left = steps.updates_elsewhere, MOST_ADDED
        self._left -= 1
        return 0 if self._left >= 0 else self._static


class UpdatesOfCalls:
    """How many updates the calls of one function made."""

    def __init__(self, counter: Optional[UpdateCounter], before: int, static: int, varies: bool) -> None:
        """counter: None where there is none. before: its value before the first call. static: updates of a
        call as its graph has them. varies: they are made in a loop or under a condition of the graph."""
        self._counter, self._static, self._varies = counter, static, varies
        self._calls, self._counted = 0, before
        self._at = (0, before)  # the newest call known to have updated, and the counter after it
        self._ratio: Optional[Tuple[int, int]] = (static, 1)  # updates in so many calls; None: not known
        self._next, self._apart, self._still = 1, 1, 0

    def made(self, call_ns: int) -> int:
        """A call of this length ended: how many updates belong to it."""
        counter = self._counter
        if counter is None:
            return self._static
        self._calls += 1
        if counter.user is not self:
            # Others may have updated by the same optimizer meanwhile: their updates are not ours.
            others, counter.user = counter.user is not None, self
            if others:
                return self._start_anew(counter)
        value = None
        if self._calls >= self._next:
            begin = _now()
            value = counter.read()
            self._learn(value, _now() - begin, call_ns)
        if value is None:
            value = self._expected()
        made, self._counted = max(0, value - self._counted), max(self._counted, value)
        return made

    def calm_calls(self) -> int:
        """So many of the next calls make one update each, as far as can be known, and read no counter."""
        if self._counter is None:
            return MOST_APART if self._static == 1 else 0
        others = self._counter.user is not self
        if others or self._varies or self._ratio is None or self._ratio[0] != self._ratio[1]:
            return 0
        return max(0, self._next - 1 - self._calls) if self._expected() == self._counted else 0

    def _expected(self) -> int:
        calls, value = self._at
        if self._ratio is None:
            return value
        updates, per = self._ratio
        return value + updates * (self._calls - calls) // per

    def _start_anew(self, counter: UpdateCounter) -> int:
        """After a call of ours that follows calls of others: it is taken for one like those before it."""
        made, value = max(0, self._expected() - self._counted), counter.read()
        if value is not None:
            self._at, self._counted = (self._calls, value), value
            self._next, self._still = self._calls + 1, 0
        return made

    def _learn(self, value: Optional[int], took_ns: int, call_ns: int) -> None:
        if value is None or self._still > MOST_STILL:
            self._counter = None
            return
        if value <= self._at[1]:
            # Gradients are only added up so far; which call will update shows when one does.
            if self._expected() > value:
                self._ratio = None
            self._still += 1
            self._next = self._calls + 1
            return
        calls, before = self._at
        if value == self._expected():
            self._apart *= 2
        else:
            self._varies = self._varies or calls > 0
            self._ratio = value - before, self._calls - calls
            self._apart = 1
        self._at, self._still = (self._calls, value), 0
        affordable = 1 + AFFORDABLE * took_ns // max(call_ns, 1) if self._varies else MOST_APART
        self._apart = min(self._apart, affordable, MOST_APART)
        self._next = self._calls + self._apart * (self._ratio[1] if self._ratio is not None else 1)
