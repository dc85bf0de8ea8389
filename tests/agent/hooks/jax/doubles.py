"""Doubles that the tests of JAX's hooks share: a marker that remembers, parts of jax."""

from __future__ import annotations

from types import SimpleNamespace
from types import SimpleNamespace as Made
from typing import Any

from roofline_agent.hooks.tracing import NEVER


def variable(*shape: int, dtype: str = "float32") -> Made:
    return Made(aval=Made(shape=shape, dtype=dtype))


def program(*equations: Made, invars: Any = ()) -> Made:
    return Made(jaxpr=Made(eqns=list(equations), invars=list(invars)))


class Array:
    """A result that is ready."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.dtype, self.size = shape, "float32", len(shape)

    def is_ready(self) -> bool:
        return True


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return leaves(list(tree.values())) if isinstance(tree, dict) else [tree]


JAX: Any = Made(
    process_count=lambda: 1,
    tree_util=Made(tree_leaves=leaves, tree_flatten_with_path=lambda out: ([((), out)], None)),
)


class RecordingMarker:
    """A marker that remembers."""

    def __init__(self) -> None:
        self.borders: list[tuple[int, int, int | None]] = []  # number, end, begin if it is another
        self.examples: list[int | None] = []
        self.spans_sent: list[tuple[str, int, int]] = []
        self.executed: list[tuple[int, int, int]] = []
        self.covered: list[tuple[int, int]] = []
        self.facts: dict[str, object] = {}
        self.tracing = SimpleNamespace(at=NEVER, records=False, is_due=False)
        self.stalls: list[tuple[int, int]] = []
        self.profiler_of = ""
        self.more = False
        self.older: list[int] = []  # steps behind which nothing may be begun

    def traces_with(self, framework: str) -> None:
        self.profiler_of = framework

    def take_stall(self) -> tuple[int, int] | None:
        return self.stalls.pop() if self.stalls else None

    def over(self, number: int, now: int) -> Any:
        """What the thread had in its steps is not known."""

    def layout(self, *_: Any) -> None:
        """Every step is sent by itself."""

    def border(
        self, number: int, examples: int | None, time_ns: int, like: int = 0, begin_ns: int | None = None
    ) -> None:
        self.borders.append((number, time_ns, begin_ns))
        self.older += [number] * self.more
        self.examples.append(examples)

    def spans(self, spans: Any) -> None:
        self.spans_sent += [span[:3] for span in spans]

    def calls(self, calls: Any, begin_ns: int, through_ns: int) -> None:
        self.executed += calls
        self.covered.append((begin_ns, through_ns))

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value
