"""Separates a rank's output into what belongs to its user and what oneDNN, MKL and our hooks printed.

Users get every byte of their own, in order and at once. A verbose line extends from its token to the end of
its line, wherever in the line the token begins; how the stream is cut into chunks changes nothing. If two are
in the same line, both are read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..records import TimedCall
from . import mkl, onednn
from .pieces import pieces

_TOKENS = (b"onednn_verbose,", b"dnnl_verbose,", b"mkldnn_verbose,", b"MKL_VERBOSE ", b"roofline_verbose,")
_PARTIAL_TOKENS = frozenset(token[:length] for token in _TOKENS for length in range(1, len(token)))
_LONGEST_TOKEN = max(map(len, _TOKENS))
_LONGEST_PARTIAL = max(map(len, _PARTIAL_TOKENS))

_MAX_BODY = 65536  # a "verbose line" that goes on for longer is something else
_TOKEN_PATTERN = rb"(?:((?:one|mkl)dnn_verbose,|dnnl_verbose,)|(MKL_VERBOSE )|roofline_verbose,)"
_TOKEN = re.compile(_TOKEN_PATTERN)
# What follows a token in a line of oneDNN's, and of MKL's; without it the line is the user's, unless another
# token in it is a library's or ours.
_ONEDNN = rb"[0-9a-z_:.+]+,"
_MKL = rb"(?:Intel\(R\) |oneMKL |MKL |oneAPI |Detected |[A-Za-z_][A-Za-z0-9_]*\()"
_LATER = rb"[^\n]{0,4096}?(?:(?:(?:one|mkl)dnn|dnnl)_verbose,%b|MKL_VERBOSE %b|roofline_verbose,)" % (
    _ONEDNN,
    _MKL,
)
_BEGIN = _TOKEN_PATTERN + rb"(?=(?(1)%b|(?(2)%b))|%b)" % (_ONEDNN, _MKL, _LATER)
_LINE = re.compile(_BEGIN + rb"[^\n]{0,%d}\n" % _MAX_BODY)
_LAST_LINE = re.compile(_BEGIN + rb"[^\n]*")
_MARK = re.compile(rb"roofline_verbose,mark,([0-9]{1,19})\s*")
# process, what, moment (monotonic ns), the same moment on the clock of oneDNN's lines (epoch ns)
_SAMPLE_NOTE = b"roofline_verbose,kernels,"
_SAMPLE = re.compile(
    rb"roofline_verbose,kernels,([0-9]{1,10}),(sampled|timed|on|through|off),([0-9]{1,19}),([0-9]{1,19})\s*"
)

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?\Z")  # a terminal's escape sequence without its last byte
_LONGEST_ESCAPE = 32

_BEHIND_TOKEN = 11  # past the first one, where a search for a second can begin
_MAX_CALLS = 262144  # calls kept until they are taken; taken once a second, this is never reached


class KernelStretch(NamedTuple):
    """The calls of a stretch of time in which every kernel was reported."""

    begin_ns: int  # node time
    end_ns: int
    calls: list[TimedCall]


class VerboseFilter:
    """Filters one stream. Feed it what arrives, pass on what it returns, and take the calls now and then.

    Where hooks sample the steps, or the time (`timed`), `sampled` is true and calls come in whole stretches
    (`take_stretches`), with nothing known of the time between them; else they come as they arrive (`take`).

    `keep_onednn` and `keep_mkl` leave that library's lines in the output, for users who asked for them.

    Counts, never reset: `lines_seen` lines of oneDNN and MKL; `lines_unparsed`, those of them which look like
    a call's and could not be parsed; `calls_dropped`, calls that were not taken in time.
    """

    def __init__(self, *, keep_onednn: bool = False, keep_mkl: bool = False) -> None:
        self._keep_onednn = keep_onednn
        self._keep_mkl = keep_mkl
        self._held = b""  # undecided: part of a token, or of a verbose line
        self._shown = 0  # how many of the held bytes the user already has
        self._calls: list[TimedCall] = []
        self._clock_ns: int | None = (
            None  # the end of the last call with a time of its own, or the last step mark
        )
        self._arrival_ns = 0
        self.lines_seen = 0
        self.lines_unparsed = 0
        self.calls_dropped = 0
        self.reads = True  # False: lines are taken out unread
        self.sampled = self.timed = False
        self._before: list[TimedCall] = []  # calls before that
        self._sampled_from_ns = 0
        self._sampler = 0  # the process whose kernels are on; 0: none's
        self._on_ns = 0  # since when
        self._trouble = 0  # lines that were not understood, until then
        self._stretches: list[KernelStretch] = []
        self.notes_alone = 0  # notes of borders since the last line of MKL's, which need them

    def feed(self, chunk: bytes, arrival_ns: int) -> bytes:
        """Take in what arrived at `arrival_ns` (epoch); returns the bytes to pass on now."""
        self._arrival_ns = arrival_ns
        data = self._held + chunk
        passed = []
        position = self._shown
        has_token = b"_verbose," in data or b"MKL_VERBOSE " in data
        if has_token:
            whole = data.rfind(b"\n") + 1
            unread = not (self.reads or self._shown or self._keep_onednn or self._keep_mkl)
            if unread and whole and _SAMPLE_NOTE not in data:
                rest, count = _LINE.subn(b"", data[:whole])
                self.lines_seen += count
                passed.append(rest)
                position = whole
            for match in _LINE.finditer(data, position if position == whole else 0, whole):
                passed.append(data[position : match.start()])
                if self._take_line(match):
                    passed.append(data[max(position, match.start()) : match.end()])
                position = match.end()
        undecided = _undecided_from(data, has_token)
        passed.append(data[position:undecided])
        self._held = data[undecided:]
        self._shown = max(0, position - undecided)
        return b"".join(passed)

    @property
    def is_undecided(self) -> bool:
        """Whether something is held back whose meaning is still open."""
        return bool(self._held)

    def release(self) -> bytes:
        """What can be shown to a user who may be waiting for it, though its meaning is still open.

        Call it when nothing came for a while. A token that goes on later is still recognised.
        """
        token = _TOKEN.match(self._held)
        if token and not self._is_kept(token):
            return b""
        passed = self._held[self._shown :]
        self._shown = len(self._held)
        return passed

    def finish(self) -> bytes:
        """The stream ended: returns what is left for the user. A last line needs no newline."""
        match = _LAST_LINE.match(self._held)
        is_users = match is None or self._take_line(match)
        passed = self._held[self._shown :] if is_users else b""
        self._held, self._shown = b"", 0
        return passed

    def take(self) -> list[TimedCall]:
        """The calls since the last time, in the stream's order; of sampled steps none: those before them."""
        if not self.sampled:
            return self._take_all()
        calls, self._before = self._before, []
        return calls

    def take_sampled_from(self) -> int:
        """Once, when sampling began (node time), if every line until then was read; else 0."""
        moment_ns, self._sampled_from_ns = self._sampled_from_ns, 0
        return moment_ns

    def _take_all(self) -> list[TimedCall]:
        calls, self._calls = self._calls, []
        return calls

    def take_stretches(self) -> list[KernelStretch]:
        """The sampled stretches that have ended since the last time."""
        stretches, self._stretches = self._stretches, []
        return stretches

    def _take_line(self, match: re.Match[bytes]) -> bool:
        """Account for a whole line; returns whether the user gets to see it."""
        if match.lastindex is None:
            mark = _MARK.fullmatch(match.group())
            if mark:
                self._clock_ns = int(mark[1])
                self.notes_alone += 1
            elif sample := _SAMPLE.fullmatch(match.group()):
                self._take_sample_note(int(sample[1]), sample[2], int(sample[3]), int(sample[4]))
            return False
        line = match.group().decode("latin-1")
        if line.find("_verbose,", _BEHIND_TOKEN) < 0 and line.find("_VERBOSE ", _BEHIND_TOKEN) < 0:
            self._take_piece(line)
        else:
            for piece in pieces(line):
                self._take_piece(piece)
        return self._is_kept(match)

    def _take_piece(self, line: str) -> None:
        library = mkl if line.startswith("MKL") else onednn
        if library is mkl:
            self.notes_alone = 0
        call = library.parse(line)
        self.lines_seen += 1
        if call is None:
            self.lines_unparsed += library.looks_executed(line)
            return
        start_ns = call.start_ns
        if start_ns is not None:
            self._clock_ns = start_ns + call.duration_ns
        elif self._clock_ns is None:
            # Without any time in the stream adding up durations would run away from the wall clock.
            start_ns = self._arrival_ns
        else:
            start_ns = self._clock_ns
            self._clock_ns += call.duration_ns
        if len(self._calls) >= _MAX_CALLS:
            self.calls_dropped += 1
        else:
            self._calls.append(TimedCall(call.shape, start_ns, call.duration_ns))

    def _take_sample_note(self, process: int, what: bytes, moment_ns: int, epoch_ns: int) -> None:
        """A note of hooks: kernels are on, still on, or off from here."""
        calls = self._take_all()
        if what in (b"sampled", b"timed"):
            if not self.sampled and self.reads:
                self._before, self._sampled_from_ns = calls, moment_ns
            self.sampled, self.timed, self.reads = True, what == b"timed", True
            return
        trouble = self.lines_unparsed + self.calls_dropped
        mine = process == self._sampler and trouble == self._trouble and moment_ns >= self._on_ns
        if what == b"on":
            # Two processes that print at once cannot be told apart: neither's stretch is claimed.
            self._sampler = 0 if self._sampler and process != self._sampler else process
        elif mine:
            self._stretches.append(KernelStretch(self._on_ns, moment_ns, calls))
        if what == b"off":
            self._sampler = 0
        self._on_ns, self._trouble, self._clock_ns = moment_ns, trouble, epoch_ns

    def _is_kept(self, match: re.Match[bytes]) -> bool:
        if match.lastindex is None:
            return False
        return self._keep_onednn if match.lastindex == 1 else self._keep_mkl

    def forget_time(self) -> None:
        """No notes of borders come any longer: what has no time of its own is placed by its arrival."""
        self._clock_ns = None


def _undecided_from(data: bytes, has_token: bool) -> int:
    """Where the undecided end of `data` begins: an unfinished verbose line, or what may become a token."""
    line_start = data.rfind(b"\n") + 1
    if has_token:
        # A search takes long, and a chunk of a megabyte may be without a newline.
        for token in _TOKEN.finditer(data, max(line_start, len(data) - _MAX_BODY - _LONGEST_TOKEN)):
            if len(data) - token.end() <= _MAX_BODY:
                return token.start()
    for start in range(max(line_start, len(data) - _LONGEST_PARTIAL), len(data)):
        if data[start:] in _PARTIAL_TOKENS:
            # The m of a colour begins no token, and whoever prints to a terminal wants it shown at once.
            return len(data) if _ESCAPE.search(data, max(0, start - _LONGEST_ESCAPE), start) else start
    return len(data)
