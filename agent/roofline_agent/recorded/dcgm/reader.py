"""Reads the text of NVIDIA's dcgm-exporter (Prometheus exposition format): of each GPU and MIG part.

A GPU's row and those of its MIG parts describe the same hardware: they stand side by side and never add up.
Values by which DCGM encodes "blank", "not found", "not supported" and "no permission" are no values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..collector import Collector
from ..recording import Counter
from ..text import Text
from . import dmon
from .fields import field
from .values import blank, is_number, number

MAX_SERIES = 1_000_000
MILLISECONDS = (
    1e11  # a larger timestamp is in milliseconds (Prometheus), a smaller one in seconds (OpenMetrics)
)
_SAMPLE = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)\s*(\{)?")
_LABEL = re.compile(r'\s*,?\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_HEADER = re.compile(r"\s*#\s*(HELP|TYPE)\s+(\S+)\s*(.*)")
_NAME = re.compile(r"dcgm_", re.I)
# A sample or its header; not a list of fields to collect ("DCGM_FI_DEV_SM_CLOCK, gauge, ...").
_SNIFF = re.compile(
    r"^\s*(?:# (?:HELP|TYPE) (?:DCGM_FI_|dcgm_)\w|(?:DCGM_FI_|dcgm_)\w+(?:\{|[ \t]+[-+]?[\d.NI]))",
    re.M | re.I,
)
# Label of an entity other than a GPU's number -> its name here; the first that is there counts.
_ENTITIES = {"nvswitch": "nvswitch", "nvlink": "nvlink", "cpucore": "cpucore", "cpu": "cpu", "uuid": "gpu"}


class _Series(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: str
    at_s: float | None


def sniff(head: str) -> int:
    """How sure it is that this is dcgm-exporter's text or `dcgmi dmon`'s table, 0..100."""
    return 95 if _SNIFF.search(head) or dmon.SIGN.search(head) else 0


def read(text: Text, found: Collector) -> None:
    """Adds a counter for each sample; facts: gpus, the model of each, hosts where there are several."""
    if dmon.SIGN.search(text.head) and not _SNIFF.search(text.head):
        dmon.read_lines(((line, text.line) for line in text.lines()), found)
        return
    found.tool = "dcgm-exporter"
    exposition = _Exposition(found)
    for line in text.lines():
        exposition.add(line, text.line)
    exposition.end()


class _Exposition:
    """One or several scrapes, line by line."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._help: dict[str, str] = {}
        self._type: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self._hosts: dict[str, str] = {}  # to what the scope of their GPUs begins with
        self._seen: set[tuple[str, str]] = set()
        self._zero_s: float | None = None
        self._profiled = False
        self._active = False  # some profiling field was not 0

    def add(self, line: str, number: int) -> None:
        header = _HEADER.match(line)
        if header:
            into = self._help if header.group(1) == "HELP" else self._type
            if len(into) < MAX_SERIES:
                into[header.group(2)] = header.group(3).strip()
            return
        if not line.strip() or line.lstrip().startswith("#"):
            return
        sample = _sample(line)
        if sample is None:
            self._found.warn("not a line of the exposition format; it is left out", number)
        elif not _NAME.match(sample.name):
            self._found.warn("metrics that are not DCGM's are left out", number)
        else:
            self._counter(sample, number)

    def _counter(self, sample: _Series, line: int) -> None:
        known = field(sample.name, self._type.get(sample.name, ""), self._help.get(sample.name, ""))
        scope = self._scope(sample.labels)
        reason = blank(sample.value)
        value = None if reason else number(sample.value)
        if reason:
            self._found.warn(f"{sample.name}: DCGM says {reason}; it has no value", line)
        elif value is None:
            self._found.warn(f"{sample.name}: {sample.value} is no value", line)

        self._found.counters.append(
            Counter(
                known.metric,
                sample.name,
                None if value is None else value * known.scale,
                known.unit,
                scope,
                t_s=self._time_s(sample, scope, line),
                kind=known.kind,
                printed=value,
                printed_unit=known.printed_unit,
            )
        )
        if known.fraction and value is not None and not 0 <= value * known.scale <= 1.001:
            self._found.warn(
                f"{known.metric}: a share of {value * known.scale:g} is not between 0 and 1", line
            )
        if known.note:
            self._found.warn(known.note, line)
        if "_PROF_" in sample.name and value is not None:
            self._profiled = True
            self._active |= value != 0

    def _time_s(self, sample: _Series, scope: str, line: int) -> float | None:
        """Seconds since the first time in the file; None for a series without a time."""
        if sample.at_s is not None:
            if self._zero_s is None:
                self._zero_s = sample.at_s
                self._found.started_ns = round(sample.at_s * 1000) * 1_000_000
            return sample.at_s - self._zero_s
        if (sample.name, scope) in self._seen:
            self._found.warn(
                "series stand in the file more than once without a time: they are kept in its order", line
            )
        elif len(self._seen) < MAX_SERIES:
            self._seen.add((sample.name, scope))
        return None

    def _scope(self, labels: Mapping[str, str]) -> str:
        lower = {name.lower(): value for name, value in labels.items()}
        whole = _entity(lower)
        host = lower.get("hostname", "")
        if host and host not in self._hosts and len(self._hosts) < MAX_SERIES:
            self._hosts[host] = f"{host} " if self._hosts else ""
        whole = self._hosts.get(host, "") + whole
        if lower.get("modelname"):
            self._models.setdefault(whole, lower["modelname"])
        part = lower.get("gpu_i_id", "")
        return f"{whole} instance {part}" if part else whole

    def end(self) -> None:
        facts = {f"{scope} model": model for scope, model in list(self._models.items())[:1000]}
        self._found.facts.update(facts)
        if self._profiled and not self._active:
            self._found.warn("every profiling field is 0: on a GPU that was busy they were not measured")
        if first := next(iter(self._hosts), ""):
            self._found.facts["host"] = first
        if len(self._hosts) > 1:
            self._found.facts["hosts"] = len(self._hosts)
            self._found.warn(
                f"GPUs of {len(self._hosts)} hosts: those of all but the first carry their host's name"
            )


def _sample(line: str) -> _Series | None:
    """The parts of `name{label="value", ...} value timestamp`; None where the line is something else."""
    name = _SAMPLE.match(line)
    if not name:
        return None
    labels: dict[str, str] = {}
    at = name.end()
    if name.group(2):
        while match := _LABEL.match(line, at):
            labels[match.group(1)] = _ESCAPED.sub(
                lambda escaped: "\n" if escaped[1] == "n" else escaped[1], match.group(2)
            )
            at = match.end()
        closing = re.compile(r"\s*,?\s*\}").match(line, at)
        if not closing:
            return None
        at = closing.end()
    words = line[at:].split()
    if not words or not is_number(words[0]):
        return None
    stamp = number(words[1]) if len(words) > 1 and words[1] != "#" else None
    if stamp is not None and stamp > MILLISECONDS:
        stamp /= 1000
    return _Series(name.group(1), labels, words[0], stamp)


def _entity(labels: Mapping[str, str]) -> str:
    """What a series was measured on, by its labels in lower case; "node" where none names a part."""
    if labels.get("gpu"):
        return f"gpu {labels['gpu']}"
    device = re.fullmatch(r"nvidia(\d+)", labels.get("device", ""))
    if device:
        return f"gpu {device[1]}"
    for label, entity in _ENTITIES.items():
        if labels.get(label):
            return f"{entity} {labels[label]}"
    return "node"
