"""Reads the results of STREAM, BabelStream and gpu-stream as ceilings of memory bandwidth: of the CPUs, or of
the GPU that ran it.

A rate is what the benchmark's own arrays move: the reads that a cache makes before it writes a line
(write-allocate) are not in it, so that the memory itself may have moved half as much again. MB are 1e6 byte.
STREAM's MPI version prints the rate of all its ranks and not on how many nodes they were: no ceiling of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .collector import Collector
from .recording import Counter, RecordedCeiling
from .text import Text

_HEADER = re.compile(
    r"\s*Function\s+(?:Best\s+)?(?:Rate\s*)?\(?((?:[MG]i?B(?:ytes)?)/s(?:ec)?)\)?", re.IGNORECASE
)
_ROW = re.compile(
    r"\s*([A-Za-z]\w{1,20}):?\s+(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)((?:\s+[\d.eE+-]+){0,6})\s*$"
)
_CSV_HEADER = re.compile(
    r"function([,;|])num_times\1n_elements\1sizeof\1max_([MG]i?B(?:ytes)?)_per_sec\1", re.IGNORECASE
)
_SWEEP = re.compile(
    r"\s*STREAM_([A-Z]+)_(\w+?)_gpu_(\d+)_buffer_(\d+)_block_(\d+)\s+(\d+(?:\.\d+)?)(?:\s+(\d+(?:\.\d+)?))?\s*$"
)
_UNITS = {"mb": 1e6, "gb": 1e9, "mib": 2.0**20, "gib": 2.0**30}
_NAMES = {"mul": "scale"}  # BabelStream's name for it
_ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}  # moved by each kernel
_FACTS = (
    ("array_elements", re.compile(r"Array size = (\d+)")),
    ("bytes_per_element", re.compile(r"This system uses (\d+) bytes per (?:array element|DOUBLE)")),
    ("threads", re.compile(r"\s*Number of Threads (?:counted )?= *(\d+)")),
    ("runs", re.compile(r"(?:Each (?:kernel|test) (?:will be executed|is run) |Running kernels )(\d+)")),
    ("array_elements", re.compile(r"Array size\s*: *(\d+) elements")),
    ("array_elements", re.compile(r"Number of elements: (\d+)")),
    ("buffer_bytes", re.compile(r"Buffer size\(bytes\): (\d+)")),
    ("runs", re.compile(r"Number of loops: (\d+)")),
)
_VERSION = re.compile(r"STREAM version \$Revision: ([\d.]+)|^Version: (\S+)")
_WORDS = (
    ("precision", re.compile(r"Precision: (\w+)")),
    ("implementation", re.compile(r"Implementation: (.+)")),
    ("device", re.compile(r"Using \w+ device:? (.+)")),
    ("array_size", re.compile(r"Array size: ([\d.]+ [KMG]i?B)")),
)
_PEAK = re.compile(r"Device (\d+): \"(.*?)\".*= *([\d.]+) GB/s PEAK")
_FAILED = re.compile(
    r"Failed Validation|Validation failed|errors? (?:were )?found|Expected checksum.*observed.*FAIL", re.I
)
_TICKS = re.compile(r"\s*\(= (\d+) clock ticks\)")
_HEAD_LINES = 3000
_MODEL = re.compile(
    r"Implementation: (?P<model>\w+)|Using (?P<used>\w+) device:? (?P<name>.+)"
    r"|Thrust backend: (?P<backend>\w+)"
)
_OF_GPUS = ("cuda", "hip")
_OF_CPUS = ("tbb", "omp", "cpp")  # the last two are Thrust's; OpenMP and std also run on GPUs
_CPU = re.compile(r"\bCPU\b|\bXeon\b|\bEPYC\b", re.I)
_ELSEWHERE = re.compile(r"GPU|Graphics|Accelerator", re.I)
_UNKNOWN = "unknown device"
_RANKS = re.compile(r"\s*Data (?:is|are) distributed across (\d{1,9}) MPI ranks")
_SEVERAL = "several ranks"  # in place of a device


class _Result(NamedTuple):
    kernel: str
    printed: str  # the kernel's name in the file
    rate: float
    rate_unit: str
    bytes_per_s: float
    device: str
    how: str


def sniff(head: str) -> int:
    """90 for results, 50 for a beginning without any."""
    best, table, before = 0, False, ""
    for line in head.split("\n")[:_HEAD_LINES]:
        line = line.rstrip("\r")
        if len(line) > 300:
            continue
        if (table and _ROW.match(line)) or _SWEEP.match(line):
            return 88
        if _CSV_HEADER.match(line):
            return 88
        table = bool(_HEADER.match(line)) or (table and not line.strip())
        babel = before == "BabelStream" and line.startswith("Version:")
        if "STREAM version $Revision" in line or babel:
            best = 50
        before = line.strip()
    return best


def read(text: Text, found: Collector) -> None:
    """The best of each kernel (and device) as a ceiling; every single rate as a counter."""
    found.tool = "stream"
    reader = StreamReader(text, found)
    for line in text.lines():
        if len(line) <= 300:
            reader.line(line)
    reader.finish()


class StreamReader:
    """Takes the lines of one file in order; other tools' lines may be among them."""

    def __init__(self, text: Text, found: Collector) -> None:
        self.text = text
        self.found = found
        self.unit = ""  # of the table being read
        self.sep = ""  # where it is BabelStream's CSV
        self.tables = 0
        # That of the next results: "" the CPUs, "gpu 0", _UNKNOWN or _SEVERAL; None: no line has named it.
        self.device: str | None = None
        self.best: dict[tuple[str, str], _Result] = {}

    def line(self, line: str) -> None:
        header, csv = _HEADER.match(line), _CSV_HEADER.match(line)
        if csv:
            self.unit, self.sep = f"{csv[2]}/s", csv[1]
        elif header:
            self.unit, self.sep = header[1], ""
        if header or csv:
            self.tables += 1
            if self.device is None:  # STREAM ("MB/s") is a program of the CPUs, BabelStream of any device
                self.device = "" if header and header[1].lower().endswith("/s") else _UNKNOWN
            return
        if self.sep:
            line = self._from_csv(line)
        sweep = _SWEEP.match(line)
        row = _ROW.match(line) if self.unit else None
        if sweep:
            self._sweep(sweep)
        elif row:
            self._row(row)
        else:
            if self.unit and line.strip() and not line.lstrip().startswith("-"):
                self.unit, self.device = "", None
            self._other_line(line)

    def _from_csv(self, line: str) -> str:
        """The line as a text table has it; what else is in it becomes facts."""
        cells = line.split(self.sep)
        if len(cells) != 8 or not all(cell.isdecimal() and len(cell) < 19 for cell in cells[1:4]):
            self.sep = ""
            return line
        for fact, cell in zip(("runs", "array_elements", "bytes_per_element"), cells[1:4], strict=True):
            self.found.facts[fact] = int(cell)
        return " ".join((cells[0], *cells[4:]))

    def _row(self, row: re.Match[str]) -> None:
        name = row[1].lower()
        if name == "geomean":
            return  # of the kernels above it: nothing that ran
        kernel = _NAMES.get(name, name)
        rate = float(row[2])
        if not 0 < rate < 1e15:
            self.found.warn(f"{row[1]} has no rate ({row[2]}): too short for the clock?", self.text.line)
            return
        value = rate * _UNITS[self.unit.lower().split("/")[0].replace("bytes", "b")]
        times = [
            float(word) for word in row[3].split() if re.fullmatch(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", word)
        ]
        # STREAM prints how much it moves and how long that took at best: its rate must follow from them.
        size, width = self.found.facts.get("array_elements"), self.found.facts.get("bytes_per_element")
        if kernel in _ARRAYS and len(times) > 2 and isinstance(size, int) and isinstance(width, int):
            shortest = min(times[:3])
            moved = _ARRAYS[kernel] * width * size
            if shortest > 0 and moved > 0 and not 0.9 < value * shortest / moved < 1.1:
                self.found.warn(
                    f"the rate of {kernel} does not follow from array size and least time; taken as printed",
                    self.text.line,
                )
        self._add(_Result(kernel, row[1], rate, self.unit, value, self.device or "", ""))

    def _sweep(self, match: re.Match[str]) -> None:
        kernel, precision, gpu, buffer, block = match[1].lower(), match[2], match[3], match[4], match[5]
        value = float(match[6]) * 1e9
        if not value:
            return
        peak = self.found.facts.get(f"gpu_{gpu}_peak_bytes_per_s")
        share = float(match[7]) / 100 if match[7] else None
        if isinstance(peak, float) and peak > 0 and share and not 0.95 < value / (peak * share) < 1.05:
            self.found.warn(
                "rate and share of the peak do not agree; rates are taken as GB/s", self.text.line
            )
        how = f"{precision}, buffer {buffer} byte, block {block}"
        printed = match[0].split()[0]
        self._add(_Result(kernel, printed, float(match[6]), "GB/s", value, f"gpu {gpu}", how))

    def _add(self, result: _Result) -> None:
        key = (result.kernel, result.device)
        old = self.best.get(key)
        is_better = old is None or result.bytes_per_s > old.bytes_per_s
        if is_better and (old is not None or len(self.best) < 10_000):
            self.best[key] = result
        where = "" if result.device in (_UNKNOWN, _SEVERAL) else result.device
        self.found.counters.append(
            Counter(
                f"{_level(result.device)}.{result.kernel}",
                result.printed,
                result.bytes_per_s,
                "byte/s",
                where,
            )._replace(kind="gauge", printed=result.rate, printed_unit=result.rate_unit)
        )

    def _other_line(self, line: str) -> None:
        for name, pattern in _FACTS:
            match = pattern.match(line)
            if match and len(match[1]) < 19:
                self.found.facts[name] = int(match[1])
        for name, pattern in _WORDS:
            match = pattern.match(line)
            if match:
                self.found.facts[name] = match[1].strip()
        if model := _MODEL.match(line):
            self.device = _device(model["model"] or model["used"] or model["backend"], model["name"] or "")
        if (ranks := _RANKS.match(line)) and (count := int(ranks[1])) > 1:
            self.found.facts["ranks"] = count
            self.device = _SEVERAL
            self.found.warn(
                f"{count} MPI ranks: STREAM does not print on how many nodes, so its rates are no ceiling of "
                "one; run it as one process with threads",
                self.text.line,
            )
        version, peak, ticks = _VERSION.match(line), _PEAK.match(line), _TICKS.match(line)
        if version:
            self.found.version = version[1] or version[2]
            self.device = None  # the output of a run begins
        if peak:
            self.found.facts[f"gpu_{peak[1]}"] = peak[2]
            self.found.facts[f"gpu_{peak[1]}_peak_bytes_per_s"] = float(peak[3]) * 1e9
        if ticks and int(ticks[1][:18]) < 20:
            self.found.warn(f"each test takes {ticks[1]} clock ticks only: rates are inexact", self.text.line)
        if _FAILED.search(line):
            self.found.warn(f"the benchmark's own check failed: {line.strip()[:100]}", self.text.line)

    def finish(self) -> None:
        facts = self.found.facts
        size = "" if "array_elements" in facts else facts.get("array_size", "")
        for (kernel, device), result in self.best.items():
            if device == _SEVERAL:
                continue
            if device == _UNKNOWN:
                self.found.warn(
                    "whether it ran on the CPUs or on a GPU is not known: its rates are no ceiling "
                    "(take STREAM for the CPUs, BabelStream by CUDA or HIP for a GPU)"
                )
                continue
            level = _level(device)
            parts = [
                f"STREAM {self.found.version}".strip() + f" {result.printed}",
                _with(facts, "device", "on {}"),
                _with(facts, "array_elements", "arrays of {} elements"),
                f"arrays of {size}" if size else "",
                _with(facts, "precision", "{} precision"),
                _with(facts, "threads", "{} threads"),
                _with(facts, "runs", "best of {} runs"),
                result.device,
                result.how,
            ]
            method = ", ".join(filter(None, parts)) + "; write-allocate traffic is not counted"
            self.found.ceilings.append(
                RecordedCeiling(
                    f"{level}.{kernel}", "memory", level, "", result.bytes_per_s, "byte/s", method, 0, device
                )
            )
        if self.tables > 1:
            self.found.warn(f"{self.tables} tables of results: the best rate of each kernel is the ceiling")
        if not self.best:
            self.found.warn("no result: the benchmark did not get to its end")


def _device(model: str, name: str) -> str:
    """Where a programming model runs; name: the device that it says it uses, "" where it says none."""
    if model.lower() in _OF_GPUS:
        return "gpu 0"  # its number is not printed
    is_cpu = model.lower() in _OF_CPUS or (_CPU.search(name) and not _ELSEWHERE.search(name))
    return "" if is_cpu else _UNKNOWN


def _level(device: str) -> str:
    """Of memory, as `calibrate` names it."""
    return {"": "dram", _UNKNOWN: "memory", _SEVERAL: "memory"}.get(device, "hbm")


def _with(facts: Mapping[str, float | int | str], name: str, words: str) -> str:
    return words.format(facts[name]) if name in facts else ""
