"""Markers that remember the steps of TensorFlow's hooks."""

from __future__ import annotations

from typing import Any

from roofline_agent.hooks.marker import NoAccount
from roofline_step._thread import StepCounts

MS = 1_000_000


class WindowMarker:
    """A marker that remembers."""

    def over(self, number: int, now: int) -> Any:
        """What the thread had in its steps is not known."""

    def layout(self, *_: Any) -> None:
        """Every step is told by itself."""

    def traces_with(self, framework: str) -> None:
        assert framework == "tensorflow"

    def take_stall(self) -> tuple[int, int] | None:
        stall, self.stall = self.stall, None
        return stall

    def __init__(self) -> None:
        self.stall: tuple[int, int] | None = None  # behind the last step, for a trace
        self.more = False
        self.windows: list[tuple[int, int, int, int | None]] = []
        self.likes: list[int] = []
        self.phases: list[tuple[str, int, int]] = []
        self.facts: dict[str, object] = {}
        self.signatures: list[Any] = []

    def like(self, signature: Any) -> int:
        if signature not in self.signatures:
            self.signatures.append(signature)
        return self.signatures.index(signature) + 1

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def window(
        self, number: int, begin_ns: int, end_ns: int, examples: int | None = None, like: int = 0
    ) -> None:
        self.windows.append((number, begin_ns, end_ns, examples))
        self.likes.append(like)

    def spans(self, spans: list[tuple[str, int, int, int | None, int]]) -> None:
        self.phases += [span[:3] for span in spans]


class LayoutMarker(WindowMarker):
    """Takes steps that are alike as what they stand for."""

    layouts_sent = 0

    def layout(self, marks: int, names: Any, places: Any, like: int) -> Any:  # type: ignore[override]
        assert marks == 2
        return names, places, like

    def send_layout(self, layout: Any, number: int, examples: int | None, times: list[int]) -> bool:
        names, places, like = layout
        first, last, *of_spans = (times[place] for place in places)
        self.phases += zip(names, of_spans[::2], of_spans[1::2], strict=True)
        self.window(number, first, last, examples, like)
        self.layouts_sent += 1
        return True


class AtOnceMarker(WindowMarker):
    """Wants each step at once, as it is."""

    def __init__(self, account: Any = NoAccount) -> None:
        super().__init__()
        self.account = account()

    def defers(self, call: Any) -> bool:
        return False

    def over(self, number: int, now: int) -> Any:
        return self.account.over(number, now)

    def look_for_switches(self) -> None:
        pass

    def failed(self, hook: str) -> None:
        raise AssertionError(hook)


class DeferringMarker(AtOnceMarker, LayoutMarker):
    """Takes steps later, and several together, but wants one at once now and then."""

    together = 0
    hand_over: Any = staticmethod(lambda: None)

    def defers(self, call: Any) -> bool:
        self.hand_over = call
        return True

    def deferred_to(self) -> int:
        return (len(self.windows) // 40 + 1) * 40

    def layout(self, marks: int, names: Any, places: Any, like: int, counts: Any = ()) -> Any:  # type: ignore[override]
        return None if counts else super().layout(marks, names, places, like)

    def send_layouts(self, layout: Any, first: int, examples: int | None, steps: list[Any]) -> bool:
        self.together += len(steps)
        return all(self.send_layout(layout, first + at, examples, list(one)) for at, one in enumerate(steps))


class OneInFour:
    """An account; the count of a step is the moment at which it was asked."""

    def __init__(self) -> None:
        self.on, self.next, self.beside_ns, self.clock = False, 2, 0, lambda: 0

    def over(self, number: int, now: int) -> StepCounts | None:
        if number < self.next:
            return None
        self.on, self.next = not self.on, number + (3 if self.on else 1)
        return None if self.on else StepCounts(("thread.run.step",), (self.clock(),), now - 1)


def assert_alike(one: WindowMarker, other: WindowMarker) -> None:
    """Both were sent the same steps and phases."""
    assert one.windows == other.windows
    assert one.likes == other.likes
    assert one.phases == other.phases
