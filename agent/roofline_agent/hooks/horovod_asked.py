"""Horovod under PyTorch: what the training asks for, counted where every request passes.

A request costs a fraction of a microsecond here: sizes are looked up once per name, and requests close to one
another are told together. Where the wrapper reads rank 0's timeline, that tells what rank 0 asked for.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import Marker, horovod_timeline
from .torch_recorder import Recorder, recorder

# Function of horovod.torch.mpi_ops, by the collective it asks for; grouped ones take several tensors.
ASKS = {
    "_allreduce_async": "allreduce",
    "_grouped_allreduce_async": "allreduce",
    "_allgather_async": "allgather",
    "_grouped_allgather_async": "allgather",
    "_broadcast_async": "broadcast",
    "_alltoall_async": "alltoall",
    "_reducescatter_async": "reducescatter",
    "_grouped_reducescatter_async": "reducescatter",
}
MAX_NAMES = 100000
JOIN_NS = 1000000

_now = time.monotonic_ns


def patch(module: Any, marker: Marker) -> None:
    """module: horovod.torch.mpi_ops."""
    horovod_timeline.say(marker)
    asked = Asked(recorder(marker), module if os.environ.get(horovod_timeline.READ) else None)
    for name, kind in ASKS.items():
        function = getattr(module, name, None)
        if function is not None:
            wrap = _counting_all if name.startswith("_grouped") else _counting
            setattr(module, name, wrap(function, kind, asked))


class Asked:
    """Requests of this process since the last step."""

    def __init__(self, record: Recorder, told_by_rank_0: Any) -> None:
        self._record = record
        self._timeline = told_by_rank_0  # horovod.torch.mpi_ops where rank 0's timeline tells all this
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)
        record.at_border(self.border)

    def _start_anew(self) -> None:
        self._open: Dict[str, List[int]] = {}  # kind -> first, last, bytes, count
        self._gradients = [0, 0]  # bytes and tensors that this step reduces
        self._last: Optional[List[int]] = None
        self._told: Optional[List[int]] = None

    def add(self, kind: str, size: int, count: int) -> None:
        """`count` tensors of `size` bytes together."""
        now = _now()
        one = self._open.get(kind)
        if one is not None and now - one[1] < JOIN_NS:
            one[1] = now
            one[2] += size
            one[3] += count
        else:
            if one is not None:
                self._tell(kind, one)
            self._open[kind] = [now, now, size, count]
        if kind == "allreduce":
            self._gradients[0] += size
            self._gradients[1] += count

    def border(self, _: int) -> None:
        """A step is over."""
        for kind, one in self._open.items():
            self._tell(kind, one)
        self._open = {}
        step, self._gradients = self._gradients, [0, 0]
        # Once may be an average of a metric; what two steps reduce one after the other is the gradient.
        if step[1] and step == self._last and step != self._told:
            self._told = step
            self._record.fact("gradient.bytes", step[0])
            self._record.fact("gradient.tensors", step[1])
        self._last = step

    def _tell(self, kind: str, one: List[int]) -> None:
        if self._timeline is None or self._timeline.rank() != 0:
            self._record.collective("asked." + kind, *one)


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _counting(function: Callable[..., Any], kind: str, asked: Asked) -> Callable[..., Any]:
    sizes: Dict[str, int] = {}

    def counted(tensor: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        handle = function(tensor, output, *args, **kwargs)
        try:
            name = args[0] if args else None  # the name, or the root of a broadcast, which is no text
            size = sizes.get(name) if type(name) is str else None
            if size is None:
                size = _size(tensor)
                if type(name) is str and kind == "allreduce" and len(sizes) < MAX_NAMES:
                    sizes[name] = size
            asked.add(kind, size, 1)
        except Exception:
            return handle
        return handle

    return counted


def _counting_all(function: Callable[..., Any], kind: str, asked: Asked) -> Callable[..., Any]:
    def counted(tensors: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        handle = function(tensors, *args, **kwargs)
        try:
            asked.add(kind, sum(map(_size, tensors)), len(tensors))
        except Exception:
            return handle
        return handle

    return counted
