"""Reads the Empirical Roofline Toolkit: `roofline.json`, and the texts `sum` and `max` of one point.

ERT finds the levels of memory by itself, from where bandwidth falls as its arrays grow; GB and GFLOP are 1e9.
Where a file names no precision it is double, the only one of ERT before it had ERT_PRECISION. By CUDA, HIP,
SYCL and OpenCL its source asks for GPUs, for each thread another one: of several threads the rates are facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .collector import Collector
from .numbers import finite
from .recording import RecordedCeiling
from .text import Text

MAX_CHARACTERS = 16 << 20
_PAIR = re.compile(r'\[\s*"([^"\\]{1,40})",\s*(-?\d[\d.eE+-]*)\s*\]')
_LINE = re.compile(r"\s*(-?\d[\d.eE+-]*)\s+((?:FP\d+ |[A-Z]\w+ )?GFLOPs?|L\d|DRAM|HBM\w*|MCDRAM)\s*$")
_WEIGHT = re.compile(r"\s*-?\d[\d.eE+-]*\s+Weight\s*$")
# Working set, trials; then us, GB/s and GFLOP/s: least, median and most.
_MAX = re.compile(r"\d+ \d+(?: \d[\d.eE+-]*){9}\s*$")
_TRY = re.compile(r" *(\d+) +(\d+) +(\d+\.\d+) +(\d+) +(\d+)\s*$")  # working set, trials, us, byte, FLOP
# Names may say more: "Peak SP Vector GFlops FMA", "DDR Mem", "STREAM HBM".
_LEVEL = re.compile(r"(?:STREAM )?(L\d|DRAM|DDR\d?|HBM\w*|MCDRAM|Shared)(?: Mem(?:ory)?)?", re.IGNORECASE)
_FLOPS = re.compile(
    r"(?:Peak )?(?:FP(\d+)|(\w+))??\s*\b((?:Vector |Scalar )?)GFLOPs?((?: FMA)?)", re.IGNORECASE
)
_PRECISIONS = {"": "f64", "dp": "f64", "sp": "f32", "hp": "f16"}
_SETTING = re.compile(
    r"(ERT_VERSION|HOSTNAME|MPI_PROCS|OPENMP_THREADS|FLOPS|TIMESTAMP_DATA|CONFIG|GPU_BLOCKS|GLOBAL_SIZE)\s+(\S.*)"
)
_OF_GPUS = ("GPU_BLOCKS", "GLOBAL_SIZE")  # settings of a run by CUDA or HIP, and by OpenCL
# In its configuration, as Python or JSON prints that.
_ON_GPU = re.compile(r"""["']ERT_(?:GPU|HIP|SYCL|OCL)["']:\s*\[\s*["']?true\b""", re.IGNORECASE)
_SEVERAL = (
    "several processes or threads, each on a GPU of its own if there are as many: the rates are no ceiling "
    "of one GPU; run ERT with one process of one thread"
)
_HOST = re.compile(r"[A-Za-z0-9][\w.\-]*")
_HEAD_LINES = 500


class _Setup(NamedTuple):
    """How ERT ran: in words, and on what; device None: on several GPUs, as far as is known."""

    method: str
    device: str | None


def sniff(head: str) -> int:
    """95 for JSON with ERT's keys, 85 for its texts."""
    if head.lstrip()[:1] == "{":
        inside = '"empirical"' in head and ('"gbytes"' in head or '"gflops"' in head)
        return 95 if inside else 0
    lines = head.split("\n")[:_HEAD_LINES]
    # A few lines that only ERT prints, or many that others print too.
    is_evident = any(line.startswith("ERT_VERSION") or _WEIGHT.match(line) for line in lines)
    results = sum(bool(_LINE.match(line)) for line in lines)
    best_values = sum(bool(_MAX.match(line)) for line in lines)
    if (results > 1 and is_evident) or best_values > 5 or _is_sweep(lines):
        return 85
    return 0


def _is_sweep(lines: list[str]) -> bool:
    """Whether ERT's own driver wrote it: the same working set once, then twice, with twice the work."""
    rows = [match.groups() for line in lines if (match := _TRY.match(line))]
    if len(rows) < 6:
        return False
    (size, trials, _, moved, flops), (size2, trials2, _, moved2, flops2) = rows[:2]
    once, twice = [int(n) for n in (trials, moved, flops)], [int(n) for n in (trials2, moved2, flops2)]
    return size == size2 and once[0] == 1 and twice == [2 * n for n in once]


def read(text: Text, found: Collector) -> None:
    """One ceiling for each level of memory, and one for each precision."""
    found.tool = "ert"
    if text.head.lstrip()[:1] == "{":
        pieces: list[str] = []
        size = 0
        for piece in text.chunks():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_CHARACTERS:
                found.warn(f"longer than {MAX_CHARACTERS} characters; read up to there")
                break
        _read_json("".join(pieces), found)
    else:
        _read_lines(text, found)
    if not found.ceilings and not any(one.text == _SEVERAL for one in found.warnings):
        found.warn("no bandwidth and no FLOP rate was found")


def _read_json(content: str, found: Collector) -> None:
    try:
        whole: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        found.warn(f"no valid JSON ({str(error)[:80]}); taken from what can be made out")
        # The pairs in brackets before the makers' own figures begin.
        for match in _PAIR.finditer(content.split('"spec"')[0]):
            value = finite(match[2])
            if value is not None and content[match.end() : match.end() + 1]:
                _ceiling(match[1], value, _setup({"CONFIG": content}), found)
        return
    measured, spec = _dict(whole, "empirical"), _dict(whole, "spec")
    shared = _settings(_dict(measured, "metadata"))
    _keep(shared, found)
    for part in ("gbytes", "gflops"):
        own = {**shared, **_settings(_dict(_dict(measured, part), "metadata"))}
        _keep(own, found)
        for name, value in _data(_dict(measured, part).get("data")):
            _ceiling(name, value, _setup(own), found)
        for name, value in _data(_dict(spec, part).get("data")):
            found.facts[f"specified {name}"] = value * 1e9


def _read_lines(text: Text, found: Collector) -> None:
    settings: dict[str, str] = {}
    values: list[tuple[str, float]] = []
    best_flops = 0.0
    for line in text.lines():
        match = _LINE.match(line)
        if match and (value := finite(match[1])) is not None and len(values) < 1000:
            values.append((match[2], value))
        elif _MAX.match(line):
            # ERT itself takes the best median, not the best try.
            best_flops = max(best_flops, finite(line.split()[-2]) or 0.0)
        elif (run := _TRY.match(line)) and (time_us := float(run[3])):
            best_flops = max(best_flops, float(run[5]) / time_us / 1e3)
        else:
            _add_line(line, settings)
    _keep(settings, found)
    setup = _setup(settings)
    setup = setup._replace(method=setup.method + "; one point of its sweep")
    for name, value in values:
        _ceiling(name, value, setup, found)
    if best_flops and not values:
        _ceiling("GFLOPs", best_flops, setup, found)
        found.warn("the levels of memory are in ERT's `sum` and roofline.json, not in this file")


def _ceiling(name: str, gigas: float, setup: _Setup, found: Collector) -> None:
    if gigas <= 0:
        found.warn(f"{name} is {gigas:g}: left out")
        return
    method, device = setup
    if device is None:
        found.facts[f"{name} of all GPUs"] = gigas * 1e9
        found.warn(_SEVERAL)
        return
    flops, memory = _FLOPS.fullmatch(name.strip()), _LEVEL.fullmatch(name.strip())
    if flops:
        word = (flops[2] or "").lower()
        precision = f"f{flops[1]}" if flops[1] else _PRECISIONS.get(word, word)
        kinds = f"{flops[3]} {flops[4]}".lower().split()
        peak = ".".join(("peak", precision, *kinds))
        found.ceilings.append(
            RecordedCeiling(peak, "compute", "", precision, gigas * 1e9, "FLOP/s", method, 0, device)
        )
    elif memory:
        level = memory[1].lower()
        level = "dram" if level.startswith("ddr") else level
        if device and level == "dram":
            level = "hbm"  # as the main memory of every GPU is called
        found.ceilings.append(
            RecordedCeiling(f"{level}.ert", "memory", level, "", gigas * 1e9, "byte/s", method, 0, device)
        )
    else:
        found.warn(f"{name} is no level of memory and no FLOP rate; left out")


def _dict(value: Any, key: str) -> dict[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _data(listed: Any) -> Iterator[tuple[str, float]]:
    """Pairs of name and number, whether they are in a list or in an object."""
    pairs = listed.items() if isinstance(listed, dict) else listed if isinstance(listed, list) else []
    for pair in pairs:
        if isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str):
            value = finite(str(pair[1]))
            if value is not None:
                yield pair[0], value


def _settings(metadata: dict[str, Any]) -> dict[str, str]:
    """Settings as text; newer versions keep them as lines under an empty key."""
    settings: dict[str, str] = {}
    for key, value in metadata.items():
        if key == "" and isinstance(value, list):
            for line in value:
                _add_line(str(line), settings)
        elif key == "HOSTNAME":
            settings[key] = _host(str(value))
        elif key == "CONFIG":
            settings[key] = str(value)
        elif key == "TIMESTAMP_DATA" and isinstance(value, list) and value:
            settings[key] = str(value[0])
        elif isinstance(value, (str, int, float)):
            settings[key] = str(value)
    return settings


def _add_line(line: str, settings: dict[str, str]) -> None:
    """A line of META_DATA; what comes first counts."""
    match = _SETTING.match(line)
    if match:
        settings.setdefault(match[1], _host(match[2]) if match[1] == "HOSTNAME" else match[2].strip())


def _host(printed: str) -> str:
    match = _HOST.search(printed)
    return match[0] if match else ""


def _keep(settings: dict[str, str], found: Collector) -> None:
    found.version = found.version or settings.get("ERT_VERSION", "")
    if settings.get("HOSTNAME"):
        found.facts["host"] = settings["HOSTNAME"]
    started = finite(settings.get("TIMESTAMP_DATA", ""))
    if started is not None and 1 <= started < 1e11:
        started_ns = int(started * 1e9)
        found.started_ns = started_ns if found.started_ns is None else min(found.started_ns, started_ns)


def _setup(settings: dict[str, str]) -> _Setup:
    device: str | None = ""
    if any(key in settings for key in _OF_GPUS) or _ON_GPU.search(settings.get("CONFIG", "")):
        is_one = all(settings.get(key, "1") == "1" for key in ("MPI_PROCS", "OPENMP_THREADS"))
        device = "gpu 0" if is_one else None
    parts = [f"ERT {settings.get('ERT_VERSION', '')}".strip()]
    for key, words in (
        ("HOSTNAME", "on {}"), ("MPI_PROCS", "{} MPI processes"), ("OPENMP_THREADS", "{} threads in each"),
        ("FLOPS", "{} FLOP an element"),
    ):  # fmt: skip
        if settings.get(key):
            parts.append(words.format(settings[key]))
    return _Setup(", ".join(parts), device)
