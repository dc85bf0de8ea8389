"""Horovod under PyTorch: the collectives that the training asks for, counted where every request passes.

Bytes are those of the whole, as in torch/collectives.py. A rank knows only its own piece of an allgather:
that times the number of ranks is used as the whole. If pieces differ, it is too much at one rank, too little
at another, and right in the mean over the ranks. An alltoall may send ranks different amounts: all that it is
given counts. The name of a collective of a process set contains the number of ranks in the set.

A request costs a fraction of a microsecond here: sizes are looked up once per name, and requests close to one
another are sent together. If the wrapper reads rank 0's timeline, that has what rank 0 asked for.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import Marker
from ..torch.recorder import Recorder, recorder
from . import timeline

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
    timeline.report(marker)
    requests = Requests(recorder(marker), module if os.environ.get(timeline.READ) else None)
    describer = Describer(module)
    for name, kind in ASKS.items():
        function = getattr(module, name, None)
        if function is not None:
            wrap = _counting_group if name.startswith("_grouped") else _counting
            setattr(module, name, wrap(function, kind, requests, describer))


class Requests:
    """Requests of this process since the last step."""

    def __init__(self, record: Recorder, read_at_rank_0: Any) -> None:
        """read_at_rank_0: horovod.torch.mpi_ops where rank 0's timeline is read, which has all this."""
        self._record = record
        self._read_at_rank_0 = read_at_rank_0
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        record.at_border(self.border)

    def _reset(self) -> None:
        self._open: Dict[str, List[int]] = {}  # kind -> first, last, bytes, count
        self._gradients = [0, 0]  # bytes and tensors that this step reduces
        self._last: Optional[List[int]] = None
        self._reported: Optional[List[int]] = None

    def failed(self) -> None:
        """A request could not be counted; this is called in the `except` clause."""
        self._record.failed("horovod_asked")

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
                self._send(kind, one)
            self._open[kind] = [now, now, size, count]
        if kind.startswith("allreduce"):
            self._gradients[0] += size
            self._gradients[1] += count

    def border(self, _: int) -> None:
        """A step is over."""
        for kind, one in self._open.items():
            self._send(kind, one)
        self._open = {}
        step, self._gradients = self._gradients, [0, 0]
        # Once may be an average of a metric; what two steps reduce one after the other is the gradient.
        if step[1] and step == self._last and step != self._reported:
            self._reported = step
            self._record.fact("gradient.bytes", step[0])
            self._record.fact("gradient.tensors", step[1])
        self._last = step

    def _send(self, kind: str, one: List[int]) -> None:
        if self._read_at_rank_0 is None or self._read_at_rank_0.rank() != 0:
            self._record.collective("asked." + kind, *one)


class Describer:
    """Describes a request: its kind, with the number of its ranks where these are not all, and its bytes."""

    def __init__(self, module: Any) -> None:
        """module: horovod.torch.mpi_ops."""
        self._module = module

    def describe(
        self, kind: str, tensors: Sequence[Any], args: Sequence[Any], kwargs: Dict[str, Any]
    ) -> Tuple[str, int]:
        """args, kwargs: of the request, of which one is its process set since Horovod 0.23."""
        size = sum(int(tensor.numel() * tensor.element_size()) for tensor in tensors)
        group = None
        for argument in (*args, *kwargs.values()):
            if hasattr(argument, "process_set_id"):
                group = argument
                break
        if kind == "allgather":
            size *= self._module.size() if group is None else group.size()
        return kind + ("" if group is None else self._suffix(group)), size

    def _suffix(self, group: Any) -> str:
        """ ".16-2" for 16 ranks with 2 of them on this node; "" for all ranks."""
        if not group.process_set_id:  # 0: the global one
            return ""
        size, ranks = group.size(), group.ranks
        if size >= self._module.size():
            return ""
        if not ranks or not self._module.is_homogeneous():
            return ".%d" % size
        # Horovod numbers the ranks of one node one after another.
        local = self._module.local_size()
        own = self._module.rank() // local
        return ".%d-%d" % (size, sum(rank // local == own for rank in ranks))


def _counting(
    function: Callable[..., Any], kind: str, requests: Requests, describer: Describer
) -> Callable[..., Any]:
    known: Dict[str, Tuple[str, int]] = {}

    def counted(tensor: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        handle = function(tensor, output, *args, **kwargs)
        try:
            name = args[0] if args else None  # the name, or the root of a broadcast, which is no text
            one = known.get(name) if type(name) is str else None
            if one is None:
                one = describer.describe(kind, (tensor,), args, kwargs)
                if type(name) is str and kind == "allreduce" and len(known) < MAX_NAMES:
                    known[name] = one
            requests.add(one[0], one[1], 1)
        except Exception:
            requests.failed()
        return handle

    return counted


def _counting_group(
    function: Callable[..., Any], kind: str, requests: Requests, describer: Describer
) -> Callable[..., Any]:
    def counted(tensors: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        handle = function(tensors, *args, **kwargs)
        try:
            name, size = describer.describe(kind, tensors, args[1:], kwargs)
            requests.add(name, size, len(tensors))
        except Exception:
            requests.failed()
        return handle

    return counted
