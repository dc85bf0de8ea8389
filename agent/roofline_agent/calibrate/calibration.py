"""What a calibration yields: plain frozen records and their JSON form.

`from_json(to_json(calibration)) == calibration`; anything else handed to `from_json` raises ValueError.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from roofline_agent.records import Provenance

FORMAT = 1


class Ceiling(NamedTuple):
    """One limit of this node, as in machine.proto, where each field is explained; None: not known."""

    name: str  # "peak.f32.512", "peak.f64.scalar", "dram.triad", "l2.read", "launch"; docs/ceilings.md
    kind: str  # "compute", "memory", "network", "latency" or "overhead"
    level: str  # "l1", "l2", "l3", "dram", "hbm", "network"; "" where there is none
    precision: str  # "f32", "bf16", ...; "" where kind is not "compute"
    width: int  # bits of the vectors: 128, 256, 512; a scalar's own 32 or 64; 0 where there are none
    value: float  # the best run
    unit: str  # "FLOP/s", "byte/s" or "s"
    spread: float  # (best run - worst run) / best run
    method: str  # one sentence: what ran, on how many threads, over how much memory, how often
    time_ns: int  # since the epoch, when the measurement ended
    device: str = ""  # "" the CPUs of the node, "gpu 0"
    threads: int | None = None  # CPUs that took part at once
    provenance: int = int(Provenance.MEASURED)
    median: float | None = None  # of the runs
    clock_hz: float | None = None  # of the cores, or of a GPU's SMs, while it ran
    peer: str = ""  # of a network: the hostname at the other end
    operation: str = ""  # "read", "copy", "triad"; "fma", "mul_add", "dot", "gemm"
    doubt: str = ""  # why the machine may do better; "": nothing is known


class SweepPoint(NamedTuple):
    """How fast memory was at one working set."""

    operation: str  # "read", "copy", "triad"
    streaming: bool  # non-temporal stores
    threads: int
    bytes: int  # of the working set, over all threads
    value: float  # the best run, byte/s, counted as STREAM does


class Calibration(NamedTuple):
    """All ceilings measured in one go on one node, and what is kept of an earlier one (earlier.py)."""

    host: str
    cpu_model: str
    cpus: int  # CPUs used, one thread on each
    time_ns: int  # since the epoch, when the last measurement ended
    ceilings: tuple[Ceiling, ...]
    notes: tuple[str, ...] = ()  # what could not be measured, and what may have disturbed the rest
    sweep: tuple[SweepPoint, ...] = ()  # by operation, stores, threads, each from small to large
    effort: str = "normal"  # "quick", "normal", "full"
    is_complete: bool = True  # no part of the measurement of the CPUs failed


def to_json(calibration: Calibration) -> dict[str, Any]:
    return {
        "format": FORMAT,
        **calibration._asdict(),
        "ceilings": [ceiling_to_json(ceiling) for ceiling in calibration.ceilings],
        "notes": list(calibration.notes),
        "sweep": [point._asdict() for point in calibration.sweep],
    }


def from_json(value: object) -> Calibration:
    """The calibration in a parsed JSON document. Raises ValueError saying what is wrong with it."""
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise ValueError(f"it has format {found}, of a later release, and this one reads up to {FORMAT}")
    if not isinstance(value, dict) or found != FORMAT:
        raise ValueError(f'expected an object with "format": {FORMAT}')
    ceilings = _list(value.get("ceilings"), "ceilings")
    is_complete = value.get("is_complete", True)
    if not isinstance(is_complete, bool):
        raise ValueError("is_complete is not true or false")
    return Calibration(
        host=_text(value, "host"),
        cpu_model=_text(value, "cpu_model"),
        cpus=_count(value, "cpus"),
        time_ns=_count(value, "time_ns"),
        ceilings=tuple(map(ceiling_from_json, ceilings)),
        # What follows is newer than the first files of this format.
        notes=tuple(_text({"note": one}, "note") for one in _list(value.get("notes", []), "notes")),
        sweep=tuple(map(point_from_json, _list(value.get("sweep", []), "sweep"))),
        effort=_text(value, "effort", "normal"),
        is_complete=is_complete,
    )


def point_from_json(value: object) -> SweepPoint:
    """The point in a parsed JSON object. Raises ValueError saying what is wrong with it."""
    if not isinstance(value, dict) or not isinstance(value.get("streaming"), bool):
        raise ValueError("a point of the sweep is not an object with streaming true or false")
    return SweepPoint(
        _text(value, "operation"),
        value["streaming"],
        _count(value, "threads"),
        _count(value, "bytes"),
        _number(value, "value"),
    )


def ceiling_to_json(ceiling: Ceiling) -> dict[str, Any]:
    return ceiling._asdict()


def ceiling_from_json(value: object) -> Ceiling:
    """The ceiling in a parsed JSON object. Raises ValueError saying what is wrong with it."""
    if not isinstance(value, dict):
        raise ValueError("a ceiling is not an object")
    return Ceiling(
        name=_text(value, "name"),
        kind=_text(value, "kind"),
        level=_text(value, "level"),
        precision=_text(value, "precision"),
        width=_count(value, "width"),
        value=_number(value, "value"),
        unit=_text(value, "unit"),
        spread=_number(value, "spread"),
        method=_text(value, "method"),
        time_ns=_count(value, "time_ns"),
        # What follows is newer than the first files of this format.
        device=_text(value, "device", ""),
        threads=_count(value, "threads") if value.get("threads") is not None else None,
        provenance=_count(value, "provenance", int(Provenance.MEASURED)),
        median=_number(value, "median") if value.get("median") is not None else None,
        clock_hz=_number(value, "clock_hz") if value.get("clock_hz") is not None else None,
        peer=_text(value, "peer", ""),
        operation=_text(value, "operation", ""),
        doubt=_text(value, "doubt", ""),
    )


def _list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _count(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a whole number of at least 0")
    return value


def _number(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is not a number")
    # Python's JSON reads NaN and Infinity; a ceiling that is not a finite number would pass for a roof.
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is not a finite number of at least 0")
    return float(value)
