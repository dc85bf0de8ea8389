"""Switches roofline's hooks off and on in a training while it runs, as a byte in a file says.

What the hooks have replaced is put back as it was, so that without them the training is the bare one.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from typing import Any

Place = tuple[Any, str]


class ProfiledTurns:
    """Follow it once a step. file: its first byte is 1 in turns with hooks, 0 in those without."""

    def __init__(self, path: str | None) -> None:
        self._profiled = True
        self._wanted: Any = b"\1"
        if path:
            with open(path, "rb") as file:
                self._wanted = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)
        self._switches: list[Callable[[bool], None]] = []

    def follow(self) -> None:
        wanted = bool(self._wanted[0])
        if wanted != self._profiled:
            self._profiled = wanted
            self._switches = self._switches or torch_switches()
            for switch in self._switches:
                switch(wanted)


def torch_switches() -> list[Callable[[bool], None]]:
    """One for everything of PyTorch that hooks have replaced or registered with and that a step meets."""
    import torch
    from torch.optim import optimizer

    places: list[Place] = [
        (torch.autograd, "backward"),
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
        (torch.nn.Module, "train"),
    ]
    places += [
        (owner, name) for owner in (torch.no_grad, torch.inference_mode) for name in ("__enter__", "__exit__")
    ]
    places += [(torch.nn.parallel.DistributedDataParallel, name) for name in ("forward", "_sync_buffers")]
    found = [replaced(*place) for place in places if "_roofline_hooks" in code_of(*place)]
    if not found:
        sys.exit("no hooks are in this process: there is nothing to switch")
    hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
    return [*found, *map(registered, hooks), silenced]


def code_of(owner: Any, name: str) -> str:
    """The module that the function there is of."""
    return str(getattr(owner.__dict__[name], "__globals__", {}).get("__name__", ""))


def replaced(owner: Any, name: str) -> Callable[[bool], None]:
    ours = owner.__dict__[name]
    original = ours.__wrapped__
    return lambda profiled: setattr(owner, name, ours if profiled else original)


def registered(hooks: dict[int, Any]) -> Callable[[bool], None]:
    known = dict(hooks)

    def switch(profiled: bool) -> None:
        hooks.clear()
        if profiled:
            hooks.update(known)

    return switch


def silenced(profiled: bool) -> None:
    """A sampled step may have been going on."""
    from torch._C import _verbose

    if not profiled:
        _verbose.mkl_set_verbose(0)
        _verbose.mkldnn_set_verbose(0)
