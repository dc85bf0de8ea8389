"""Recorded verbose output of oneDNN, DNNL, MKL-DNN and MKL, with whatever a program printed in between.

Each executed primitive or routine is a launch of a kernel, named by what it does and its sizes; FLOPs and
least traffic (level "minimum") follow from these. Creations and dispatches are counted as facts. Steps that
a training printed in between are read as from a training's own log.
"""

from __future__ import annotations

import re
from collections import Counter

from roofline_agent.records import KernelCall, KernelShape
from roofline_agent.verbose import header, mkl, onednn
from roofline_agent.verbose.pieces import TOKEN, pieces

from .collector import Collector
from .recording import Launch
from .text import Text, without_escapes
from .training import keras as keras_log
from .training import tf_cnn
from .training.ranks import split_rank

SURE = re.compile(
    r"(?:onednn|dnnl|mkldnn)_verbose,(?:v[0-9]+,)?(?:[0-9.e+]+,)?"
    r"(?:primitive|graph|ukernel|common|info|exec|create|dispatch|error|warn)"
    r"|MKL_VERBOSE (?:Intel\(R\)|oneMKL|[A-Za-z_0-9]+\(|oneapi::)"
)
_OVERWRITTEN = re.compile(r"[\r\b]+")
_PREPARED = 8192
_MAX_PROBLEM = 400
_NANOSECONDS = 1e9
_FAR_BACK_NS = 60_000_000_000  # threads print out of order by milliseconds, never by this

_SEVERAL = (
    "several ranks wrote this log: calls of all but rank {} are left out; to import another rank's, put its "
    "lines into a file of their own"
)
_COUNTED = {
    ("create", "dispatch"): "dispatches",
    ("create", "check"): "checks",
    ("create", "start"): "creates_started",
    ("exec", "check"): "checks",
    ("exec", "external"): "externals",
    ("dispatch", ""): "dispatches",
    ("error", ""): "errors",
    ("warn", ""): "library_warnings",
}


def sniff(head: str) -> int:
    """97 wherever a line of theirs is: a training log with such lines is read here, others are not."""
    return 97 if SURE.search(head) else 0


def read(text: Text, found: Collector) -> None:
    """Launches, header facts and counts of `text`; warns of lines that cannot be parsed."""
    log, benchmark, keras = VerboseLog(text, found), tf_cnn.TfCnnLog(found), keras_log.KerasLog(found)
    for line in text.lines():
        if "_verbose," in line or "MKL_VERBOSE " in line:
            log.take(line)
            continue
        for state in _OVERWRITTEN.split(line):
            if not benchmark.add(state, text.line):
                keras.add(state, text.line)
    keras.finish()
    benchmark.finish()
    log.finish()


class VerboseLog:
    """What has been read so far of a file that may hold other lines too."""

    def __init__(self, text: Text, found: Collector) -> None:
        self._text = text
        self._found = found
        self._prepared: dict[KernelShape, Launch] = {}
        self._order: tuple[int, ...] = ()  # of a line's fields, where a header gives an unusual one
        self._versions: list[str] = []
        self._counts: Counter[str] = Counter()
        self._create_s = 0.0
        self._cut = ("", 0)  # a line that is not whole, and its number: the last one may have been cut
        self._end_ns = 0
        self._is_onednn = False
        self._rank = ""  # the first that a launcher names

    def take(self, line: str) -> None:
        """A line with a token in it, or with several where threads wrote at once."""
        rank, line = split_rank(without_escapes(line))
        if rank and not self._rank:
            self._rank = rank
            self._found.facts["rank"] = int(rank)
        elif rank and rank != self._rank:
            self._found.warn(_SEVERAL.format(self._rank), self._text.line)
            return
        warning, number = self._cut
        if number:  # not the file's last line with a token: it is garbled, not cut off
            self._found.warn(warning, number)
            self._cut = ("", 0)
        for piece in pieces(line):
            self._take_piece(piece)

    def _take_piece(self, piece: str) -> None:
        is_mkl = "MKL_VERBOSE " in piece
        call = mkl.parse(piece) if is_mkl else onednn.parse(piece, self._order)
        if call is not None:
            self._is_onednn |= not is_mkl
            self._add_launch(call)
        elif TOKEN.search(piece) is None:
            return  # another program's output
        elif mkl.looks_executed(piece) if is_mkl else onednn.looks_executed(piece):
            self._is_onednn |= not is_mkl
            self._counts["garbled"] += 1
            self._cut = ("an executed call's line is garbled or has no time: it is left out", self._text.line)
        elif is_mkl:
            self._add_facts(header.mkl_info(piece))
        else:
            self._is_onednn = True
            self._take_other(piece)

    def _add_launch(self, call: KernelCall) -> None:
        self._counts["executions"] += 1
        launch = self._prepared.get(call.shape)
        if launch is None:
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            launch = self._prepared[call.shape] = _prepare(call.shape)
        start_s: float | None = None
        if call.start_ns is not None:
            if self._found.started_ns is None:
                self._found.started_ns = call.start_ns  # times count from the first call that has one
            if call.start_ns < self._end_ns - _FAR_BACK_NS:
                self._found.warn("times go back here: more than one recording in a file?", self._text.line)
            self._end_ns = call.start_ns + call.duration_ns
            zero_ns = self._found.started_ns
            duration_s = (self._end_ns - zero_ns) / _NANOSECONDS
            self._found.duration_s = max(self._found.duration_s or 0.0, duration_s)
            start_s = (call.start_ns - zero_ns) / _NANOSECONDS
        time_s: float | None = call.duration_ns / _NANOSECONDS
        if call.shape.library == "mkl" and call.shape.on_gpu and not time_s:
            time_s = None
            self._found.warn("times on a GPU were not measured: MKL_VERBOSE=2 does that", self._text.line)
        self._found.launch(launch._replace(time_s=time_s, start_s=start_s))

    def _take_other(self, piece: str) -> None:
        component, operation, kind = header.kind_of(piece)
        if operation == "info":
            try:
                order = onednn.field_order(piece)
            except ValueError as error:
                self._found.warn(str(error), self._text.line)
                return
            if order is not None:
                self._order = order
                return
            facts = header.onednn_info(piece)
            version = str(facts.pop("version", ""))
            if version and version not in self._versions:
                self._versions.append(version)
            self._add_facts(facts)
        elif component == "graph":
            self._counts["graph_partitions"] += operation == "exec"
        elif (operation, kind) in _COUNTED:
            self._counts[_COUNTED[operation, kind]] += 1
        elif operation in ("create", "create_nested"):
            seconds = header.seconds_of(piece)
            if seconds is None:
                self._cut = ("a creation's line is garbled", self._text.line)
            elif operation == "create":  # the time of a nested one is part of its parent's
                self._create_s += seconds
            self._counts["creates_nested" if operation == "create_nested" else "creates"] += 1

    def _add_facts(self, facts: header.Facts) -> None:
        for name, value in facts.items():
            self._found.facts.setdefault(name, value)

    def finish(self) -> None:
        found = self._found
        warning, line = self._cut
        if line and line == self._text.line:
            found.warn("the file ends inside this line; it is left out", line)
        elif line:
            found.warn(warning, line)
        if self._is_onednn:
            found.tool = "onednn"
            found.version = self._versions[0] if self._versions else ""
        else:
            found.tool = "mkl"
            found.version = str(found.facts.get("mkl_version", ""))
        if len(self._versions) > 1:
            found.facts["versions"] = ", ".join(self._versions)
        if self._create_s:
            found.facts["create_s"] = self._create_s
        executions = self._counts.pop("executions", 0)
        found.facts.update({name: count for name, count in self._counts.items() if count})
        if not executions and self._is_onednn:
            found.warn(
                "no whole line of an executed primitive: ONEDNN_VERBOSE=1 (or profile_exec) prints them"
            )
        elif not executions:
            found.warn("no whole line of an executed routine: MKL_VERBOSE=1 prints them, on an Intel GPU 2")
        elif self._counts["graph_partitions"]:
            found.warn(
                "graph partitions are not counted: their primitives print lines of their own, "
                "which a graph compiler's do not"
            )


def _prepare(shape: KernelShape) -> Launch:
    """The launch of a shape, but for its times; one name for a distinct shape."""
    problem = shape.problem
    if len(problem) > _MAX_PROBLEM:  # a concatenation may list a thousand sources
        problem = f"{problem[:_MAX_PROBLEM]}..."
    if shape.library == "mkl":  # its routines' names contain the precision
        name = f"{shape.implementation}({problem})"
    else:
        precision = "" if shape.precision == "f32" else shape.precision
        name = " ".join(filter(None, (shape.operation, shape.variant, problem, precision)))
    return Launch(
        name=name,
        time_s=None,
        flops=shape.flops,
        bytes={} if shape.bytes is None else {"minimum": shape.bytes},
        precision=shape.precision,
        library=shape.library,
        variant=shape.variant,
        problem=problem,
        note=shape.note,
        on_gpu=shape.on_gpu,
        counted=shape.counted,
    )
