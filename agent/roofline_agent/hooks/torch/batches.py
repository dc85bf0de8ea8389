"""PyTorch: how many examples a step worked on, and of which shapes, from what DataLoaders yielded. Imports no
torch.

Each iterator is a queue: a backward uses up the oldest batch of each. So one that fetches ahead (accelerate
does, by one) still gives each step its own batch. What is fetched and never trained on is no step's. How far
another thread is ahead says nothing of the step that goes on, and its iterator may end before it is used.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, Hashable, List, Optional, Tuple

from .batch_sizes import examples_in_call, shapes_in

MOST_READY = 4096  # batches of one iterator; endless ones may be read without a backward ever


class _Queue:
    __slots__ = ("ahead", "ended", "first_ns", "forget", "over", "sizes", "thread", "used")

    def __init__(self, first_ns: int, thread: int) -> None:
        self.sizes: Deque[Tuple[Optional[int], Hashable]] = deque(maxlen=MOST_READY)  # examples, shapes
        self.first_ns = first_ns
        self.forget: Any = None  # called when the iterator ends its life
        self.thread = thread  # that fetches its batches
        self.ended = False  # they come from another thread than the one that trains, and there are no more
        self.over = False  # there are no more
        self.used = False  # a backward has used a batch of it
        self.ahead: Optional[int] = None  # batches that lie ready at the end of a step


class Batches:
    """Fetched batches until a backward uses them."""

    __slots__ = (
        *("_all", "_dropped", "_examples", "_gone", "_passed", "_shapes", "_trains_on_evaluated", "_unknown"),
        *("holds", "queues", "shapes"),
        *("dispatched_in", "from_other_thread", "other", "trainer"),
    )

    def __init__(self, gone: Callable[[int], None] = lambda key: None) -> None:
        """gone: called with the id of an iterator that has ended its life."""
        self._gone = gone
        self.trainer = 0  # the thread that trains
        self.other = -1  # one that trains something else next to it
        self.clear()

    def clear(self) -> None:
        self.dispatched_in = 0  # the thread that reads what is sliced for all ranks (dispatcher.py)
        self.queues: Dict[int, _Queue] = {}
        self._all: Tuple[_Queue, ...] = ()
        self.from_other_thread = False  # some were fetched by another thread than the one that trains
        self.holds = False  # also those whose iterators have ended: what was fetched is yet to be worked out
        self._examples: Optional[int] = None
        self._unknown = False
        self._dropped = False  # what an evaluation has left, since the last backward
        self._trains_on_evaluated = False  # a backward used what seemed to be that
        self._passed: Optional[Tuple[Optional[int], Hashable]] = None
        self._shapes: Hashable = None
        # Of the batches of the step that take() was called for: its shapes; None if not all are known.
        self.shapes: Hashable = None

    def trains(self, thread: int) -> None:
        """This thread trains."""
        self.trainer, self.other = thread, -1
        self.from_other_thread = any(queue.thread != thread for queue in list(self.queues.values()))

    def fetched(
        self,
        iterator: Any,
        size: Optional[int],
        now: int,
        shapes: Hashable = None,
        thread: Optional[int] = None,
    ) -> None:
        """`iterator` yielded a batch of `size` examples with tensors of these shapes (None: unknown) to this
        thread (None: the one that trains)."""
        key = id(iterator)
        queue = self.queues.get(key)
        thread = self.trainer if thread is None else thread
        if queue is None:
            self._drop_ended()
            queue = self.queues[key] = _Queue(now, thread)
            self._all = tuple(self.queues.values())
            queue.forget = weakref.finalize(iterator, self._forget, key, queue)
            queue.forget.atexit = False
        queue.thread = thread
        queue.first_ns = queue.first_ns or now
        queue.over = False
        if thread != self.trainer:
            self.from_other_thread = True
        queue.sizes.append((size, shapes))

    def ended(self, iterator: Any) -> Optional[int]:
        """`iterator` has no more. If nothing of it was trained on, drop its batches and return the time of
        its first fetch."""
        queue = self.queues.get(id(iterator))
        if queue is None:
            return None
        queue.ended = queue.thread != self.trainer
        queue.over = True
        if queue.used or (queue.ended and not self._another_goes_on()):
            return None
        queue.sizes.clear()
        if queue.ended:
            return None
        self.restarted(iterator)
        return queue.first_ns

    def restarted(self, iterator: Any) -> None:
        """`iterator` begins anew, as persistent ones do; what is left of before is never trained on."""
        queue = self.queues.pop(id(iterator), None)
        if queue is not None:
            queue.sizes.clear()
            queue.forget.detach()
            self._gone(id(iterator))
            self.let_go()

    def evaluated(self, since: int) -> None:
        """There was an evaluation since then: what was fetched for it is never trained on, though it was not
        read to its end."""
        if self._trains_on_evaluated:
            return
        for queue in self._all:
            if queue.sizes and not queue.used and queue.first_ns >= since and queue.thread == self.trainer:
                queue.sizes.clear()
                queue.first_ns = 0
                self._dropped = True

    def _another_goes_on(self) -> bool:
        """Whether there is training on batches that are still fetched: those of another one are evaluated."""
        return any(queue.used and not queue.ended for queue in list(self.queues.values()))

    def _drop_ended(self) -> None:
        """Another iterator begins: what is left of those that ended before is never trained on."""
        for key, queue in list(self.queues.items()):
            if queue.ended:
                queue.sizes.clear()
                self.queues.pop(key, None)

    def _forget(self, key: int, queue: _Queue) -> None:
        # Garbage collection may end iterators at any time: `_all` is replaced, so a loop over it goes on.
        self._gone(key)
        if self.queues.get(key) is queue:
            del self.queues[key]
            if queue.sizes and queue.thread != self.trainer:  # they wait in a queue of the training's own
                queue.ended = True
                self.queues[~key] = queue
            if not self.holds:
                self._all = tuple(self.queues.values())

    def let_go(self) -> None:
        """What was noted of calm steps is worked out: iterators that have ended meanwhile are not needed."""
        self.holds = False
        if len(self._all) != len(self.queues):
            self._all = tuple(self.queues.values())

    def has_loaders(self) -> bool:
        """Whether batches come from a DataLoader."""
        return bool(self.queues)

    def passed(self, size: Optional[int], shapes: Hashable = None) -> None:
        """A wrapped module was called with `size` examples: counts where there is no DataLoader."""
        self._passed = size, shapes

    def passed_arguments(self, args: Any, kwargs: Any) -> None:
        """A wrapped module was called with these."""
        if not self.queues:  # else it does not count, and to look through them takes 20 us
            self.passed(examples_in_call(args, kwargs), shapes_in([args, kwargs]))

    def training(self, iterator: Any) -> bool:
        """Whether a backward has used a batch of this iterator."""
        queue = self.queues.get(id(iterator))
        return queue is not None and queue.used

    def newest_ns(self) -> Optional[int]:
        """When the first batch was fetched from the newest iterator of which none was used yet."""
        fetched = [q.first_ns for q in self._all if q.sizes and not q.used]
        return max(fetched) if fetched else None

    def first_ns(self) -> Optional[int]:
        """When the first of the batches that wait to be trained on was fetched."""
        waiting = [q.first_ns for q in self._all if q.sizes]
        return min(waiting) if waiting else None

    def waiting(self) -> bool:
        """Whether a batch lies ready to be trained on."""
        for queue in self._all:  # noqa: SIM110 - a generator costs more than all the rest
            if queue.sizes:
                return True
        return False

    def pending(self) -> bool:
        """Whether there are batches that were not trained on, or were in the step that goes on."""
        return self._examples is not None or self._unknown or self.waiting()

    def backward(self) -> None:
        """A backward uses one batch of each queue."""
        used = False
        for queue in self._all:
            if queue.sizes and queue.thread != self.other:
                used = queue.used = True
                batch = queue.sizes.popleft()
                if self._examples is None and batch[0] is not None:
                    self._examples, self._shapes = batch
                else:
                    self._count(batch)
        if not used:
            if not self.queues and self._passed is not None:
                self._count(self._passed)
            self._trains_on_evaluated = self._trains_on_evaluated or self._dropped
        self._dropped = False
        self._passed = None

    def backward_of_other(self) -> List[Tuple[Optional[int], Hashable]]:
        """A backward of the other thread uses these."""
        queues = [queue for queue in self._all if queue.sizes and queue.thread == self.other]
        return [queue.sizes.popleft() for queue in queues]

    def moved(self, backwards: List[List[Tuple[Optional[int], Hashable]]]) -> None:
        """The backwards of other threads, which used these, were of the training; one without any used what
        was fetched elsewhere."""
        for queue in self._all:
            queue.used = queue.used or queue.thread == self.other
        for batches in backwards:
            if batches:
                self.add(batches)
            else:
                self.backward()

    def add(self, batches: List[Tuple[Optional[int], Hashable]]) -> None:
        """The step that goes on used these, too."""
        for batch in batches:
            self._count(batch)

    def take(self) -> Optional[int]:
        """Examples of the step that is over, 0 if they were counted before; None if unknown."""
        for queue in self._all:
            if queue.sizes and queue.used and queue.thread == self.trainer:
                # More is ready than at the end of the first step: this step fetched several for one backward.
                ready = len(queue.sizes)
                if queue.ahead is None:
                    queue.ahead = 1 if ready == 1 else 0
                for _ in range(ready - queue.ahead):
                    self._count(queue.sizes.popleft())
        examples, self._examples = self._examples, None
        self.shapes, self._shapes = self._shapes, None
        if self._unknown:
            self._unknown, examples, self.shapes = False, None, None
        elif examples is None and self._between_fetches():
            return 0
        return examples

    def _between_fetches(self) -> bool:
        """Whether the training is between two batches of an iterator: a step that took none goes on with what
        an earlier one has counted (a part of its sequence, one update more)."""
        return any(queue.used and not queue.over and queue.thread == self.trainer for queue in self._all)

    def _count(self, batch: Tuple[Optional[int], Hashable]) -> None:
        size, shapes = batch
        if size is None:
            self._unknown = True
        elif self._examples is None:
            self._examples, self._shapes = size, shapes
        else:
            self._examples += size
            # One number: any number of backwards may come without an update.
            known = self._shapes is not None and shapes is not None
            self._shapes = hash((self._shapes, shapes)) if known else None
