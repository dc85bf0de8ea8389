"""Steps read from what a rank prints, for programs whose steps no hook sees.

A line that matches the user's pattern ends the step whose number it shows, at the moment it was written. A
log that leaves steps out (every 10th, or all that came within a refresh of a progress bar) has those in
between spread evenly, and `described` says so.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple

from .agent_link import Border

LINE_BYTES = 4096  # of each line so much is searched
LINE_S = 0.1  # CPU time for one line; a pattern that needs more would hold the training's output up
MAX_SPREAD = 10_000  # steps between two lines; more is another count that begins
MAX_STEP = 2**53
ENVIRON = {"ROOFLINE_STEPS": "log"}  # hooks mark no steps then
_LINE_END = re.compile(rb"[\r\n]")


class PatternError(Exception):
    """The pattern cannot be used; the text says why."""


class MatchedLine(NamedTuple):
    """A line that matched."""

    step: int
    examples: int | None
    time_ns: int


def compile_pattern(text: str) -> re.Pattern[str]:
    """Raises PatternError."""
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{text!r} is not a Python regular expression: {error}") from None
    if "step" not in pattern.groupindex:
        raise PatternError(f"{text!r} has no group named step: write (?P<step>\\d+) where the number stands")
    return pattern


class LineSplitter:
    """Cuts a stream into lines, ended by \\n or \\r. A line's time is when its last byte came: a progress bar
    writes the end of a line only before the next one."""

    def __init__(self) -> None:
        self._text = b""
        self._time_ns = 0

    def feed(self, data: bytes, now_ns: int) -> Iterator[tuple[bytes, int]]:
        *whole, rest = _LINE_END.split(data)
        for part in whole:
            self._add(part, now_ns)
            yield from self.end()
        self._add(rest, now_ns)

    def _add(self, part: bytes, now_ns: int) -> None:
        if part:
            self._text = (self._text + part[:LINE_BYTES])[:LINE_BYTES]
            self._time_ns = now_ns

    def end(self) -> Iterator[tuple[bytes, int]]:
        """The line is over, with or without its end."""
        if self._text:
            yield self._text, self._time_ns
        self._text = b""


class StepSpreader:
    """Makes borders of numbered lines; spreads evenly those that came at one moment, and steps left out."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._time_ns = 0
        self.gaps: tuple[int, int] | None = None  # fewest and most steps from one line to the next
        self.together = False  # lines came at one moment

    def borders(self, found: list[MatchedLine]) -> list[Border]:
        """found: lines of one moment, in their order."""
        begin_ns, known = self._time_ns, self._step is not None
        ended: list[tuple[int, int | None]] = []  # steps, with their examples
        lines_with_steps = 0
        for line in found:
            before, self._step = self._step, line.step
            if before == line.step:  # seen before
                continue
            lines_with_steps += 1
            if before is None or not 0 < line.step - before <= MAX_SPREAD:  # a count begins
                ended.append((line.step, line.examples))
                continue
            gap = line.step - before
            self.gaps = (min(self.gaps[0], gap), max(self.gaps[1], gap)) if self.gaps else (gap, gap)
            ended += [(step, line.examples) for step in range(before + 1, line.step + 1)]
        if not ended:
            return []
        end_ns = self._time_ns = max(begin_ns, found[-1].time_ns)
        if not known:
            return [Border(*ended[-1], end_ns)]
        self.together |= lines_with_steps > 1
        each = (end_ns - begin_ns) / len(ended)
        return [
            Border(step, examples, end_ns - round(each * (len(ended) - 1 - at)))
            for at, (step, examples) in enumerate(ended)
        ]


SIGNALS = (signal.SIGVTALRM,)  # that a StepLog uses itself


class StepLog:
    """Looks for steps in the streams of one command. Make and feed it in the main thread."""

    def __init__(self, pattern: re.Pattern[str], notify: Callable[[str], None]) -> None:
        self._pattern = pattern
        self._notify = notify
        self._spread = StepSpreader()
        self._streams: list[LineSplitter] = []
        self._borders: list[Border] = []
        self._matched = False
        self._off = False
        self._warned = False
        self._searching = False

        def interrupt(number: int, frame: FrameType | None) -> None:
            if self._searching:
                raise _TooSlow

        # The engine of regular expressions checks for signals; nothing else stops one that runs forever.
        signal.signal(signal.SIGVTALRM, interrupt)

    def stream(self) -> Callable[[bytes, int], None]:
        """A listener for one more stream."""
        lines = LineSplitter()
        self._streams.append(lines)
        return lambda data, now_ns: self._read(lines.feed(data, now_ns))

    def take(self) -> list[Border]:
        """The borders found since the last call."""
        taken, self._borders = self._borders, []
        return taken

    def finish(self) -> None:
        """Take the last lines of a command that has ended, with or without a line end."""
        for lines in self._streams:
            self._read(lines.end())
        if not self._matched and not self._off:
            self._notify(
                f"roofline-agent: no line of the output matched --step-regex {self._pattern.pattern!r}: "
                "no steps are recorded"
            )

    @property
    def described(self) -> str:
        """How these steps were seen, for the report; empty while none was."""
        if not self._matched:
            return ""
        words = [f"lines of the log matching {self._pattern.pattern!r}"]
        fewest, most = self._spread.gaps or (1, 1)
        if most > 1:
            every = f"every {_ordinal(most)} step" if fewest == most else f"up to {most} steps a line"
            words.append(f"{every}; those between are spread evenly")
        elif self._spread.together:
            words.append("lines that came together are spread evenly")
        if self._off:
            words.append("given up for a line that took too long")
        return ", ".join(words)

    def _read(self, lines: Iterator[tuple[bytes, int]]) -> None:
        moment: list[MatchedLine] = []
        for text, time_ns in lines:
            found = None if self._off else self._match(text, time_ns)
            if found is None:
                continue
            if moment and moment[0].time_ns != time_ns:
                self._borders += self._spread.borders(moment)
                moment = []
            moment.append(found)
        self._borders += self._spread.borders(moment)

    def _match(self, text: bytes, time_ns: int) -> MatchedLine | None:
        try:
            match = self._search_in_time(text.decode(errors="replace"))
        except _TooSlow:
            self._off = True
            self._notify(
                f"roofline-agent: --step-regex {self._pattern.pattern!r} took more than {LINE_S:g} s for one "
                "line: it is not looked for any more; write it without nested repeats"
            )
            return None
        if match is None:
            return None
        number = match["step"]
        step = _whole(number)
        if step is None:
            if not self._warned:
                self._warned = True
                self._notify(
                    f"roofline-agent: the group step of --step-regex matched {number!r}, which is no number"
                )
            return None
        self._matched = True
        examples = _whole(match["examples"]) if "examples" in self._pattern.groupindex else None
        return MatchedLine(step, examples, time_ns)

    def _search_in_time(self, line: str) -> re.Match[str] | None:
        try:
            self._searching = True
            signal.setitimer(signal.ITIMER_VIRTUAL, LINE_S)
            return self._pattern.search(line)
        finally:
            self._searching = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class _TooSlow(Exception):
    pass


def _whole(text: str | None) -> int | None:
    """A number as logs write it: 1200, 1,200, 32.0; None for anything else."""
    try:
        number = float((text or "").replace(",", "").replace("_", ""))
    except ValueError:
        return None
    return int(number) if 0 <= number <= MAX_STEP and number == int(number) else None


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
