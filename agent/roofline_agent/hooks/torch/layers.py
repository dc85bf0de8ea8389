"""PyTorch: names the layers, which are the modules of a model, in a trace (profiler.py).

From start() to stop() each call of a module is a range of the profiler, which is called LAYER and its path
in the model: "roofline.layer ResNet/layer1/0/conv1". Operators within are those of the layer; whose their
backward is shows by the numbers that autograd gives them (recorded/traces/layers.py).
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Dict, List, Tuple

from ..signals import raise_again
from . import module as _module
from .layer_ranges import LAYER

# What a wrapper calls the module that it wraps.
WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")


class Layers:
    """The modules that are called in the traced steps. Nothing here raises into the training."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._handles: List[Any] = []
        self._paths: Dict[int, Tuple[Any, str]] = {}  # by id; the module, so that no other gets its id
        self._threads = threading.local()

    def start(self) -> None:
        """Code that torch.compile made would be compiled again if modules had hooks: then there are none."""
        if _module.compiles[0]:
            return
        hooks = sys.modules[self._torch.__name__ + ".nn.modules.module"]  # type: Any
        _module.at_compile.append(self.stop)
        self._handles.append(hooks.register_module_forward_pre_hook(self._enter))
        try:
            self._handles.append(hooks.register_module_forward_hook(self._leave, always_call=True))
        except TypeError:  # an older torch
            self._handles.append(hooks.register_module_forward_hook(self._leave))

    def stop(self) -> None:
        """May be called again."""
        while self._handles:
            self._handles.pop().remove()
        if self.stop in _module.at_compile:
            _module.at_compile.remove(self.stop)
        self._paths.clear()

    @property
    def _open(self) -> List[Tuple[Any, Any]]:
        """Modules that this thread is in, outermost first, and their ranges."""
        found = getattr(self._threads, "open", None)  # type: Any
        if found is None:
            found = self._threads.open = []
        return found  # type: ignore[no-any-return]

    def _enter(self, module: Any, _: Any) -> None:
        try:
            within = self._open
            span = self._torch.autograd.profiler.record_function(LAYER + self._path(module, within))
            span.__enter__()
            within.append((module, span))
        except Exception:
            raise_again()
            self.stop()

    def _leave(self, module: Any, *_: Any) -> None:
        try:
            within = self._open
            if not any(one is module for one, _ in within):
                return
            while within:  # those above it were left by an exception
                one, span = within.pop()
                span.__exit__(None, None, None)
                if one is module:
                    return
        except Exception:
            raise_again()
            self.stop()

    def _path(self, module: Any, within: List[Tuple[Any, Any]]) -> str:
        if id(module) not in self._paths:
            root = _unwrapped(within[0][0] if within else module)
            name = type(root).__name__
            for path, part in root.named_modules():
                self._paths.setdefault(id(part), (part, "/".join([name, *_plain(path)])))
        if id(module) not in self._paths:  # a wrapper, or one that belongs to none of the parts of its model
            outer = self._paths[id(within[-1][0])][1] + "/" if within and self._knows(within[-1][0]) else ""
            self._paths[id(module)] = (module, outer + type(module).__name__)
        return self._paths[id(module)][1]

    def _knows(self, module: Any) -> bool:
        return id(module) in self._paths


def _unwrapped(module: Any) -> Any:
    """The model within DistributedDataParallel, FSDP, torch.compile, DeepSpeed's engine and their like."""
    while True:
        parts = module._modules
        inner = next((parts[name] for name in WRAPPED if parts.get(name) is not None), None)
        if inner is None or len(parts) > 1:
            return module
        module = inner


def _plain(path: str) -> List[str]:
    return [part for part in path.split(".") if part and part not in WRAPPED]
