"""Facts in the headers of verbose output: version, instruction set, runtime, threads, GPUs; and the kind of
a oneDNN line that reports no execution."""

from __future__ import annotations

import re

Facts = dict[str, float | int | str]

_STAMP = r"(?:[0-9][0-9.]*(?:e\+?[0-9]+)?,)?"
_PREFIX = rf"(?:onednn|dnnl|mkldnn)_verbose,(?:v[0-9]+,)?{_STAMP}"
_INFO = re.compile(rf"{_PREFIX}(?:common,)?info,(.*)")
_VERSION = re.compile(
    r"(?:oneDNN|DNNL|MKL-DNN) v([0-9][\w.+-]*)(?: \((?:commit|Git Hash) ([^)]*)\))?(?:,(.*))?"
)
_DEVICE = re.compile(r"(cpu|gpu),(runtime|isa):([^,]*)(.*)")
_GPU = re.compile(r"gpu,engine,([0-9]{1,4}),(?:backend:[^,]*,)?name:([^,]*)")
_THREADS = re.compile(r",nthr:([0-9]{1,6})")
_KIND = re.compile(rf"{_PREFIX}(?:(primitive|graph|ukernel|common),)?([a-z_]+)(?::([a-z_]+))?,")
_SECONDS = re.compile(r",\s*([0-9]+\.?[0-9]*(?:e[+-]?[0-9]{1,3})?)\s*$")
_MKL = re.compile(
    r"MKL_VERBOSE (?:Intel\(R\) )?(?:oneMKL|MKL|oneAPI Math Kernel Library)(?: Version)? "
    r"([0-9][\w. ]{0,40}?)(?= Product build| for |,|\s*$)"
)
_MKL_ISA = re.compile(r" architecture (.{1,400}?)(?: enabled processors|, (?:Lnx|Win|OSX|Mac)|\s*$)")
_THREADING = re.compile(r"\b(?:\w+_thread|sequential|tbb)\b")
_MAX_REST = 2000  # characters; a garbled line may be endless
_MAX_MILLISECONDS = 1e9


def onednn_info(line: str) -> Facts:
    """Facts of an `info` line of oneDNN, DNNL or MKL-DNN; `version` without its leading v."""
    match = _INFO.search(line)
    if match is None:
        return {}
    rest = match[1].strip()
    version = _VERSION.search(rest)
    if version:
        return _named(version=version[1], commit=version[2], cpu_isa=version[3])
    gpu = _GPU.match(rest)
    if gpu:
        return {f"gpu_{gpu[1]}": gpu[2]}
    device = _DEVICE.match(rest)
    if device is None:
        return {}
    kind, key, value, more = device.groups()
    if key == "isa":  # the instruction sets' names are a list with commas
        return {f"{kind}_isa": value + more}
    facts: Facts = {f"{kind}_runtime": value}
    threads = _THREADS.match(more)
    if threads:
        facts["threads"] = int(threads[1])
    return facts


def mkl_info(line: str) -> Facts:
    """Facts of MKL's header line."""
    match = _MKL.search(line)
    if match is None:
        return {}
    rest = line[match.end() : match.end() + _MAX_REST]
    isa, threading = _MKL_ISA.search(rest), _THREADING.search(rest)
    return _named(mkl_version=match[1], mkl_isa=isa and isa[1], mkl_threading=threading and threading[0])


def _named(**values: str | None) -> Facts:
    return {name: value.strip() for name, value in values.items() if value and value.strip()}


def kind_of(line: str) -> tuple[str, str, str]:
    """Component, operation and its kind: ("primitive", "create", "cache_miss"); empty where not printed."""
    match = _KIND.search(line)
    return (match[1] or "", match[2], match[3] or "") if match else ("", "", "")


def seconds_of(line: str) -> float | None:
    """The time at a line's end, which it has in milliseconds."""
    match = _SECONDS.search(line)
    if match is None or float(match[1]) > _MAX_MILLISECONDS:
        return None
    return float(match[1]) / 1e3
