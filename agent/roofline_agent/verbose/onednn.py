"""Turns one line of oneDNN's verbose output (MKL-DNN 0.x to oneDNN 3.x) into a kernel call.

Only executed primitives count. Not taken: creation, dispatch, check and header lines; `graph,exec` lines,
whose primitives print lines of their own; `exec:external` lines, which are a part of a primitive's time.

Versions differ in what comes before `exec` (layout version, timestamp, component) and in the number of
fields behind the descriptors, so a line is read from both ends: five fields from the front, sizes and
milliseconds from the back, and whatever is between is attributes and algorithm. A header's `template:`
line names the fields; should a version print them in another order, `field_order` finds it for `parse`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..records import KernelCall, KernelShape
from .descriptors import parse_tensors
from .work import Primitive, count_work

_LIBRARIES = ("onednn", "dnnl", "mkldnn")
# 13 digits are epoch milliseconds; shorter ones, and 2.7's `1.7952e+12`, are no times.
_STAMP = r"(?:([0-9]{13})(?:\.([0-9]+))?|[0-9][0-9.]*(?:e\+?[0-9]+)?)"
_PREFIX = rf"_verbose,(?:v[0-9]+,)?(?:{_STAMP},)?(?:primitive,|ukernel,)?(?=exec,)"
_EXECUTED = re.compile(rf"(?:{'|'.join(_LIBRARIES)}){_PREFIX}")
_TIMED = re.compile(_PREFIX + r"exec,(.*),\s*([0-9]+\.?[0-9]*(?:e[+-]?[0-9]{1,3})?)[\s\"'`]*$")
_ENGINE = re.compile(r"(?:cpu|gpu)(?:2(?:cpu|gpu))?(?::[0-9]+)?")
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_DIRECTION = re.compile(r"undef|forward\w*|backward\w*")
_NO_PROBLEM = re.compile(r"[a-z][a-z_-]*:")  # an attribute or an algorithm
_TEMPLATE = re.compile(r"(?:primitive,info,|info,prim_)template:(?:timestamp,)?operation,(.*)")
_FIELDS = (
    "engine",
    "primitive",
    "implementation",
    "prop_kind",
    "memory_descriptors",
    "attributes",
    "auxiliary",
    "problem_desc",
)

_FPMATH = re.compile(r"attr-fpmath(?:_mode)?:(bf16|f16|tf32|any)(:true)?")

_DISTINCT_LINES = 8192  # a training run repeats some hundreds; sequences of changing length make more
_LONG_LINE = 4096  # characters; not remembered, lest hostile ones fill the memory
_MAX_MILLISECONDS = 1e9
_MAX_COUNT = 2**63 - 1  # counts travel in 8 bytes; no kernel comes near, a garbled line may


def parse(line: str, order: tuple[int, ...] = ()) -> KernelCall | None:
    """The call a line reports, or None if it reports none or cannot be understood. Never raises.

    order: from `field_order`, where a header announced fields in another order than all known versions.
    """
    token = line.rfind("_verbose,")  # where threads' lines ran into each other the last one is whole
    if token < 0 or not line.endswith(_LIBRARIES, 0, token):
        return None
    match = _TIMED.match(line, token)
    if match is None:
        return None
    whole, fraction, body, milliseconds = match.groups()
    shape = _shape(body, order) if len(body) < _LONG_LINE else _shape.__wrapped__(body, order)
    duration_ms = float(milliseconds)
    if shape is None or duration_ms > _MAX_MILLISECONDS:
        return None
    start_ns = None if whole is None else int(whole + ((fraction or "") + "000000")[:6])
    return KernelCall(shape, start_ns, round(duration_ms * 1e6))


def looks_executed(line: str) -> bool:
    """Whether the line claims to be an executed primitive, understood or not."""
    return _EXECUTED.search(line) is not None


def field_order(line: str) -> tuple[int, ...] | None:
    """Where a `template:` line has the known fields: () as all known versions do, None for any other line.

    Raises ValueError where it does not have them all, or has the time elsewhere than at the end.
    """
    match = _TEMPLATE.search(line)
    if match is None:
        return None
    *names, last = match[1].strip().split(",")
    if sorted(names) != sorted(_FIELDS) or last != "exec_time":
        raise ValueError(f"fields of a oneDNN line that are not known: {match[1].strip()[:200]}")
    order = tuple(names.index(name) for name in _FIELDS)
    return () if order == tuple(range(len(_FIELDS))) else order


@lru_cache(maxsize=_DISTINCT_LINES)
def _shape(body: str, order: tuple[int, ...]) -> KernelShape | None:
    fields = body.split(",")
    if len(fields) == len(order):
        fields = [fields[at] for at in order]
    primitive = _primitive(fields)
    if primitive is None:
        return None
    # The first descriptor is the input, except where the input's gradient is the result.
    precision = primitive.tensors[0].type if primitive.tensors else ""
    if primitive.variant == "backward_data":
        weights = [tensor.type for tensor in primitive.tensors if tensor.role == "wei"]
        precision = weights[0] if weights else precision
    work = count_work(primitive)
    fpmath = _FPMATH.search(primitive.options)
    note = ""
    if fpmath:
        note = f"{'integers' if fpmath[2] else 'f32'} may be computed as {fpmath[1]} (fpmath mode)"
    on_gpu = _ENGINE.fullmatch(fields[0]) is not None and "gpu" in fields[0]
    return KernelShape(
        library="onednn",
        operation=primitive.operation,
        variant=primitive.variant,
        precision=precision,
        implementation=primitive.implementation,
        problem=primitive.problem,
        flops=_countable(work.flops),
        bytes=_countable(work.bytes),
        note="; ".join(filter(None, (work.note, note))),
        on_gpu=True if on_gpu else None,
        counted=False if on_gpu else None,
    )


def _primitive(fields: list[str]) -> Primitive | None:
    if _ENGINE.fullmatch(fields[0]):  # 0.x prints no engine
        fields = fields[1:]
    if len(fields) > 3 and _DIRECTION.fullmatch(fields[1]) and not _DIRECTION.fullmatch(fields[2]):
        fields = [fields[0], "", *fields[1:]]  # before 0.14 no implementation is printed
    if len(fields) < 5:
        return None
    operation, implementation, variant, descriptors, *options, problem = fields
    problem = problem.strip()
    if not (_WORD.fullmatch(operation) and _WORD.fullmatch(variant) and problem):
        return None
    if _NO_PROBLEM.match(problem):  # cut off before it, and what looks like the time is a size
        return None
    return Primitive(
        operation=operation,
        variant="" if variant == "undef" else variant,
        implementation=implementation,
        tensors=parse_tensors(descriptors),
        options=" ".join(options),
        problem=problem,
    )


def _countable(count: int | None) -> int | None:
    return None if count is None or count > _MAX_COUNT else count
