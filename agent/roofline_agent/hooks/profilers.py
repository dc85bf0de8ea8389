"""What the frameworks' profilers share when they record steps on demand (tracing.py).

A process has one profiler. If the training has begun one, ours is not begun; if it begins one meanwhile, as
Keras' TensorBoard does, ours is ended first: otherwise that would raise in the training.
"""

from __future__ import annotations

import abc
import functools
import os
import time
from typing import Any, Callable, List, Tuple

from .signals import raise_again

ANCHOR = "roofline_anchor"  # an event at a known node time: a trace counts from its own begin


class XPlaneProfiler(abc.ABC):
    """XLA's profiler, of TensorFlow or JAX."""

    framework = ""

    def __init__(self, path: str) -> None:
        """path: of a folder that is made."""
        self._folder = path
        self._profiler: Any = None
        self._leave: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Raises what the framework raises if the training is recording already."""
        os.mkdir(self._folder)
        profiler, owners, name, annotation = self._begin()
        self._profiler = profiler
        self._leave = make_way(owners, self._end, name)
        with annotation(ANCHOR, at=time.monotonic_ns()):
            pass

    @abc.abstractmethod
    def _begin(self) -> Tuple[Any, List[Any], str, Any]:
        """Begin to record in the folder: the profiler, the modules whose function of this name begins it, and
        what makes an event of a trace."""

    @abc.abstractmethod
    def _stop(self, profiler: Any, save: bool) -> None:
        """End to record. save: what was recorded is wanted."""

    def stop(self) -> str:
        """The path of the trace. Raises RuntimeError where the training has begun to record,
        FileNotFoundError where there is none."""
        if self._profiler is None:
            raise RuntimeError(f"the training records something with {self.framework}'s profiler itself")
        self._end(save=True)
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(".xplane.pb"):
                    return os.path.join(folder, name)
        raise FileNotFoundError(f"{self.framework}'s profiler wrote no trace")

    def _end(self, save: bool = False) -> None:
        self._leave()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            self._stop(profiler, save)


def make_way(owners: List[Any], end: Callable[[], Any], name: str) -> Callable[[], None]:
    """Have end() called before the function of this name of one of these modules or classes; until what is
    returned is called."""
    replaced: List[Tuple[Any, Any, Any]] = []

    def leave() -> None:
        for owner, start, starts in replaced:
            if getattr(owner, name, None) is starts:
                setattr(owner, name, start)
        replaced.clear()

    def wrapped(start: Any) -> Any:
        @functools.wraps(start)
        def starts(*args: Any, **kwargs: Any) -> Any:
            try:
                end()
            except Exception:
                leave()  # ours is lost; the training's begins as it would
                raise_again()
            return start(*args, **kwargs)

        return starts

    for owner in owners:
        start = getattr(owner, name, None)
        if start is not None:
            starts = wrapped(start)
            replaced.append((owner, start, starts))
            setattr(owner, name, starts)
    return leave
