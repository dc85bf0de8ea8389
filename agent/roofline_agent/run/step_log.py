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

LINE_BYTES = 4096  # of each line so much is looked at
LINE_S = 0.1  # CPU time that one line may take; a pattern that needs more would hold the training's output up
MAX_SPREAD = 10_000  # steps between two lines; more is another count that begins
MAX_STEP = 2**53
ENVIRON = {"ROOFLINE_STEPS": "log"}  # hooks do not mark then
_LINE_END = re.compile(rb"[\r\n]")


class PatternError(Exception):
    """The pattern cannot be used; the text says why."""


class Found(NamedTuple):
    """A line that matched."""

    step: int
    examples: int | None
    time_ns: int


def compile_pattern(text: str) -> re.Pattern[str]:
    """Raises PatternError."""
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{text!r} is no regular expression of Python's: {error}") from None
    if "step" not in pattern.groupindex:
        raise PatternError(f"{text!r} has no group named step: write (?P<step>\\d+) where the number stands")
    return pattern


class Lines:
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


class Spread:
    """Makes borders of numbered lines: those that came at one moment, and the steps between, evenly."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._time_ns = 0
        self.gaps: tuple[int, int] | None = None  # fewest and most steps from one line to the next
        self.together = False  # lines came at one moment

    def borders(self, found: list[Found]) -> list[Border]:
        """found: lines of one moment, in their order."""
        begin_ns, known = self._time_ns, self._step is not None
        numbered = [pair for line in found for pair in self._numbers(line)]
        if not numbered:
            return []
        end_ns = self._time_ns = max(begin_ns, found[-1].time_ns)
        if not known:
            return [Border(*numbered[-1], end_ns)]
        self.together |= sum(line.step == number for line in found for number, _ in numbered) > 1
        each = (end_ns - begin_ns) / len(numbered)
        return [
            Border(step, examples, end_ns - round(each * (len(numbered) - 1 - at)))
            for at, (step, examples) in enumerate(numbered)
        ]

    def _numbers(self, line: Found) -> list[tuple[int, int | None]]:
        """The steps this line ends: none if it was seen before, one where a count begins."""
        before, self._step = self._step, line.step
        if before == line.step:
            return []
        if before is None or not 0 < line.step - before <= MAX_SPREAD:
            return [(line.step, line.examples)]
        gap = line.step - before
        self.gaps = (min(self.gaps[0], gap), max(self.gaps[1], gap)) if self.gaps else (gap, gap)
        return [(step, line.examples) for step in range(before + 1, line.step + 1)]


class StepLog:
    """Looks for steps in the streams of one command. To be made and fed in the main thread."""

    def __init__(self, pattern: re.Pattern[str], say: Callable[[str], None]) -> None:
        self._pattern = pattern
        self._say = say
        self._spread = Spread()
        self._streams: list[Lines] = []
        self._borders: list[Border] = []
        self._matched = False
        self._off = False
        self._complained = False
        self._looking = False
        # A regular expression looks for signals now and then; nothing else stops one that runs wild.
        signal.signal(signal.SIGVTALRM, self._interrupt)

    def stream(self) -> Callable[[bytes, int], None]:
        """A listener for one more stream."""
        lines = Lines()
        self._streams.append(lines)
        return lambda data, now_ns: self._look(lines.feed(data, now_ns))

    def take(self) -> list[Border]:
        """The borders found since the last call."""
        taken, self._borders = self._borders, []
        return taken

    def finish(self) -> None:
        """The command has ended: its last lines need no end."""
        for lines in self._streams:
            self._look(lines.end())
        if not self._matched and not self._off:
            self._say(
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

    def _look(self, lines: Iterator[tuple[bytes, int]]) -> None:
        moment: list[Found] = []
        for text, time_ns in lines:
            found = None if self._off else self._find(text, time_ns)
            if found is None:
                continue
            if moment and moment[0].time_ns != time_ns:
                self._borders += self._spread.borders(moment)
                moment = []
            moment.append(found)
        self._borders += self._spread.borders(moment)

    def _find(self, text: bytes, time_ns: int) -> Found | None:
        try:
            match = self._search(text.decode(errors="replace"))
        except _TooSlow:
            self._off = True
            self._say(
                f"roofline-agent: --step-regex {self._pattern.pattern!r} took more than {LINE_S:g} s for one "
                "line: it is not looked for any more; write it without nested repeats"
            )
            return None
        if match is None:
            return None
        step = _whole(match["step"])
        if step is None:
            self._complain(match["step"])
            return None
        self._matched = True
        examples = _whole(match["examples"]) if "examples" in self._pattern.groupindex else None
        return Found(step, examples, time_ns)

    def _search(self, line: str) -> re.Match[str] | None:
        try:
            self._looking = True
            signal.setitimer(signal.ITIMER_VIRTUAL, LINE_S)
            return self._pattern.search(line)
        finally:
            self._looking = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._looking:
            raise _TooSlow

    def _complain(self, text: str | None) -> None:
        if not self._complained:
            self._complained = True
            self._say(f"roofline-agent: the group step of --step-regex matched {text!r}, which is no number")


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
