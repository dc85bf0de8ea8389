"""PyTorch: collectives that a training, or FSDP, asks for through the functions of torch.distributed.

A call that returns when it is done is a wait; of one that returns a Work, the wait is in Work.wait. Bytes are
those of the whole: what all ranks together gather, what is there before it is scattered. Of a gather and a
scatter only the root has the whole, the others count their piece. The name of a collective of some ranks only
contains how many ("asked.allreduce.16-2", groups.py). Collectives of C++ (DDP's buckets) are not seen.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from typing import Any, Dict, Mapping, MutableMapping, Optional, Sequence, Tuple

from .. import Marker
from ..signals import raise_again
from .groups import Groups, position_of_group
from .recorder import Recorder, recorder

# function -> kind, position and name of the argument whose bytes are moved
FUNCTIONS = {
    "all_reduce": ("allreduce", 0, "tensor"),
    "all_reduce_coalesced": ("allreduce", 0, "tensors"),
    "broadcast": ("broadcast", 0, "tensor"),
    "reduce": ("reduce", 0, "tensor"),
    "all_gather": ("allgather", 0, "tensor_list"),
    "all_gather_coalesced": ("allgather", 0, "output_tensor_lists"),
    "all_gather_into_tensor": ("allgather", 0, "output_tensor"),
    "all_gather_single": ("allgather", 0, "output_tensor"),
    "_all_gather_base": ("allgather", 0, "output_tensor"),
    "gather": ("gather", 0, "tensor"),
    "scatter": ("scatter", 0, "tensor"),
    "reduce_scatter": ("reducescatter", 1, "input_list"),
    "reduce_scatter_tensor": ("reducescatter", 1, "input"),
    "reduce_scatter_single": ("reducescatter", 1, "input"),
    "_reduce_scatter_base": ("reducescatter", 1, "input"),
    "all_to_all": ("alltoall", 1, "input_tensor_list"),
    "all_to_all_single": ("alltoall", 1, "input"),
    "send": ("send", 0, "tensor"),
    "isend": ("send", 0, "tensor"),
    "recv": ("recv", 0, "tensor"),
    "irecv": ("recv", 0, "tensor"),
    "barrier": ("barrier", None, ""),
    "monitored_barrier": ("barrier", None, ""),
}
# What the root of these is given: a piece of each rank.
WHOLE = {"gather": (1, "gather_list"), "scatter": (1, "scatter_list")}
MAX_WORKS = 1024
BLOCKED_NS = 20000  # a shorter wait found its work done

_Work = Tuple[str, int, Optional[int]]


def patch(module: Any, marker: Marker) -> None:
    """module: torch.distributed.distributed_c10d."""
    calls = _Collectives(recorder(marker), Groups(module))
    for name, (kind, position, argument) in FUNCTIONS.items():
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, calls.wrapped(function, kind, position, argument))
    calls.wrap_wait(module.Work)
    initialise = module.init_process_group

    @functools.wraps(initialise)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = initialise(*args, **kwargs)
        try:
            calls.record.fact("setting.backend", module.get_backend())
            calls.record.fact("setting.world_size", module.get_world_size())
            marker.variables(**_variables(module))
        except Exception:
            calls.record.failed("torch_collectives")
        return result

    module.init_process_group = init_process_group
    destroy = getattr(module, "destroy_process_group", None)
    if destroy is None:
        return

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        try:
            # Who ends the process next may do so without Python's own end, as Ray does.
            marker.flush()
        except Exception:
            calls.record.failed("torch_collectives")
        return destroy(*args, **kwargs)

    module.destroy_process_group = destroy_process_group


def _variables(module: Any) -> Dict[str, object]:
    """Which rank of its group this process is, as torchrun would say it."""
    found: Dict[str, object] = {"RANK": module.get_rank(), "WORLD_SIZE": module.get_world_size()}
    for name in ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        found[name] = os.environ.get(name, "")
    return found


class _Collectives:
    def __init__(self, record: Recorder, groups: Groups) -> None:
        self.record = record
        self._groups = groups
        self._inner = threading.local()
        # Weakly: a Work holds its tensors, and one that nobody waits for must not be taken for a later one.
        self._works: MutableMapping[Any, _Work] = weakref.WeakKeyDictionary()

    def wrapped(self, function: Any, kind: str, position: Optional[int], argument: str) -> Any:
        inner, clock, done = self._inner, time.monotonic_ns, self._done
        account, waits_from = self.record.account, self.record.waits_from
        suffix, place, whole = self._groups.suffix, position_of_group(function), WHOLE.get(kind)

        @functools.wraps(function)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if getattr(inner, "on", False):
                return function(*args, **kwargs)
            begin, waits = clock(), not kwargs.get("async_op")
            if waits and account.on:
                begin = waits_from(begin)
            inner.on = True
            try:
                result = function(*args, **kwargs)
            finally:
                inner.on = False
            end = clock()
            try:
                if position is None:
                    done(kind, None, result, begin, end, waits)
                else:
                    what = _argument(args, kwargs, position, argument)
                    if whole is not None:
                        what = _argument(args, kwargs, *whole) or what
                    group = None if place is None else _argument(args, kwargs, place, "group")
                    done(kind + suffix(group), what, result, begin, end, waits)
            except Exception:
                self.record.failed("torch_collectives")
            return result

        return collective

    def _done(self, kind: str, what: Any, result: Any, begin: int, end: int, waits: bool) -> None:
        record, size = self.record, _bytes(what)
        record.collective("asked." + kind, begin, end, size)
        if hasattr(result, "wait"):
            if waits:  # it was thought to
                record.not_waited()
            if _on_cpu(what):
                if len(self._works) >= MAX_WORKS:
                    self._works.clear()
                self._works[result] = (kind, begin, size)
        elif waits and record.in_training_thread():
            record.blocked(begin, end)
            if _on_cpu(what):
                record.collective("engine." + kind, begin, end, size)

    def wrap_wait(self, owner: Any) -> None:
        inner, clock = self._inner, time.monotonic_ns
        record, works, waiting = self.record, self._works, owner.wait

        # pybind11 recognises by the name of a frame that a Python subclass calls its base: it must be "wait".
        @functools.wraps(waiting)
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(inner, "on", False):
                return waiting(self, *args, **kwargs)
            begin = record.waits_from(clock())
            result = waiting(self, *args, **kwargs)
            try:
                end = clock()
                asked = works.pop(self, None) if works else None
                if record.in_training_thread():
                    record.blocked(begin, end)
                    if asked is not None and end - begin >= BLOCKED_NS:
                        kind, since, size = asked
                        record.collective("engine." + kind, since, end, size)
            except Exception:
                record.failed("torch_collectives")
            return result

        owner.wait = wait


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def _bytes(what: Any) -> Optional[int]:
    """Bytes of a tensor, or of lists of them; None for anything else."""
    if isinstance(what, (list, tuple)):
        sizes = [_bytes(part) for part in what]
        return None if None in sizes else sum(sizes)  # type: ignore[arg-type]
    try:
        return int(what.numel()) * int(what.element_size())
    except Exception:
        raise_again()
        return None  # no tensor: an object that is pickled


def _on_cpu(what: Any) -> bool:
    # A GPU's collectives are still running when the call returns.
    while isinstance(what, (list, tuple)):
        if not what:
            return False
        what = what[0]
    return what is None or bool(getattr(what, "is_cpu", False))
