"""PyTorch: stretches with gradients off, `torch.no_grad()` and `torch.inference_mode()`.

Between two steps they are evaluations, rollouts or the like; without an optimizer they may be the updates
made by hand.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from .. import Marker
from .between_steps import SHORTEST_NS, WITHOUT_GRADIENTS
from .recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.autograd.grad_mode."""
    record = recorder(marker)
    outermost: Any = [None]
    for name in ("no_grad", "inference_mode"):
        owner = getattr(module, name, None)
        if owner is not None:
            _wrap(owner, record, outermost)


def _wrap(owner: Any, record: Recorder, outermost: Any) -> None:
    enter, leave, clock, thread = owner.__enter__, owner.__exit__, time.monotonic_ns, threading.get_ident
    since = [0]

    # wraps() leads TorchScript, which compiles these classes, to their own source.
    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:
        if outermost[0] is None and thread() == record.thread:
            outermost[0], since[0] = self, clock()
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:
        if outermost[0] is self:
            outermost[0] = None
            end = clock()
            try:
                if record.by_hand is not None:
                    record.by_hand.without_gradients(since[0], end)
                if end - since[0] >= SHORTEST_NS and not record.forward_begun():
                    record.note_between(WITHOUT_GRADIENTS, since[0], end, certain=False)
            except Exception:
                record.failed("torch_grad_mode")
        return leave(self, *error)

    owner.__enter__, owner.__exit__ = __enter__, __exit__
