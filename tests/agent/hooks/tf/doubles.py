"""Markers that remember the steps of TensorFlow's hooks."""

from __future__ import annotations

from typing import Any


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
