"""Reads what a training printed: tf_cnn_benchmarks or Keras `fit`, among whatever else is in the log.

A line may have been written over by carriage returns and backspaces; each state of it is looked at. Lines of
oneDNN's and MKL's verbose modes are read here too, where a program's own words fill so much of the file's
beginning that it was not taken for such a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..collector import Collector
from ..text import MAX_LINE, Text
from ..verbose_log import SURE, VerboseLog
from . import keras as keras_log
from . import tf_cnn

_ENDS = re.compile(r"\n|[\r\b]+")
_COLOURS = re.compile(
    r"(?:\x1b|\\)?\[\d{1,3}(?:;\d+)*m|\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*\x07?|[()].)"
)
_NOTEBOOK = re.compile(r'\s*\{\s*"cells"\s*:\s*\[|\s*\{.{0,200}"cell_type"\s*:', re.S)
_NOISE = re.compile(r"tensorflow/(core|stream_executor|compiler)/|\bINFO:tensorflow:|tf_logging\.py")


def sniff(head: str) -> int:
    """How sure it is that this is such a log, 0..100. A notebook is none: its outputs are cut up in JSON."""
    if _NOTEBOOK.match(head):
        return 0
    plain = _COLOURS.sub("", head)
    sure = max(tf_cnn.sniff(plain), keras_log.sniff(plain))
    return sure or (10 if _NOISE.search(plain) else 0)


def read(text: Text, found: Collector) -> None:
    """Adds the steps and the throughput; facts: model, batch and devices."""
    benchmark, keras = tf_cnn.TfCnnLog(found), keras_log.KerasLog(found)
    verbose: VerboseLog | None = None
    for state in states(text):
        if ("_verbose," in state or "MKL_VERBOSE " in state) and (verbose or SURE.search(state)):
            verbose = verbose or VerboseLog(text, found)
            verbose.take(state)
            continue
        plain = _COLOURS.sub("", state) if "[" in state or "\x1b" in state else state
        if not benchmark.add(plain, text.line):
            keras.add(plain, text.line)
    keras.finish()
    benchmark.finish()
    if verbose:
        verbose.finish()
    if not found.tool:
        found.tool = "training log"


def states(text: Text) -> Iterator[str]:
    """Every line, and every state of a line that was written over."""
    rest = ""
    text.line = 1
    for chunk in text.chunks():
        rest += chunk
        at = 0
        for end in _ENDS.finditer(rest):
            yield rest[at : end.start()]
            text.line += end.group() == "\n"
            at = end.end()
        rest = rest[at:][-MAX_LINE:]
    if rest:
        yield rest
    else:
        text.line -= 1
