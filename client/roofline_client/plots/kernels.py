"""Names of kernels that people read: of oneDNN's and MKL's descriptors and of C++ signatures what tells one
kernel from another, "convolution backward data 16×64→64, 56×56, 3×3" or "gemm 1024×32×768 TN".

A descriptor of another form stays as it is. Sources: oneDNN's verbose format (its documentation, "Inspecting
Performance", problem descriptions), MKL's (`MKL_VERBOSE`, arguments in BLAS order).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from roofline.answers.roofline import RoofPoint
from roofline.answers.time_roofline import TimePoint

Point = TypeVar("Point", RoofPoint, TimePoint)

# mb16_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1, its groups and a depth if there are some; its end
# may have been cut.
_CONVOLUTION = re.compile(
    r"((?:backward|forward)_?\w*) mb(\d+)_(?:g(\d+))?ic(\d+)oc(\d+)_(?:id\w+?_)?"
    r"ih(\d+)oh(\d+)kh(\d+)sh(\d+)[a-z0-9]*(?:_iw(\d+)ow(\d+)(?:kw(\d+))?\w*)?…?"
)
_INNER = re.compile(r"((?:backward|forward)_?\w*) mb(\d+)(?:ih\d+iw\d+)?ic(\d+)oc(\d+)")
# gemm N,T,m,n,k,... with pointers and leading dimensions after it.
_GEMM = re.compile(r"\b(\w*gemm\w*) ([NTC]),([NTC]),(\d+),(\d+),(\d+)(?:,[\w*.…]*)*")
_MATMUL = re.compile(r"\b(gemm_api|matmul) (\d+(?:x\d+)*):(\d+(?:x\d+)*)")
# What PyTorch's element-wise kernels do: MulFunctor, sum_functor, CUDAFunctor_add, direct_copy_kernel_cuda.
_FUNCTORS = re.compile(r"CUDAFunctor_(\w+)|(\w+?)_?[Ff]unctor\b|(\w+?)_kernel_cuda\b")
_WRAPPERS = ("Unary", "Binary")
_NAMELESS = ("Kernel", "Kernel2", "enable_if", "kernel")  # names that templates give to everything


def plain(text: str) -> str:
    """A sentence or name with every descriptor in it made readable."""
    for pattern, made in (
        (_CONVOLUTION, _convolution),
        (_INNER, lambda m: f"{_words(m[1])} {m[2]}×{m[3]}→{m[4]}"),
        (_GEMM, lambda m: f"{m[1]} {m[4]}×{m[5]}×{m[6]} {m[2]}{m[3]}"),
        (_MATMUL, lambda m: f"{_words(m[1])} {m[2].replace('x', '×')} · {m[3].replace('x', '×')}"),
    ):
        text = pattern.sub(made, text)
    return text


def names(labels: Iterable[str]) -> dict[str, str]:
    """By label a readable name; no two labels have the same."""
    found: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        name, count = readable(label), 1
        while name in found.values():
            count += 1
            name = f"{readable(label)}, variant {count}"
        found[label] = name
    return found


def renamed(points: Sequence[Point]) -> list[Point]:
    """Kernels with names that can be read, other points as they are."""
    told = names(point.label for point in points if point.kind == "kernel")
    return [p._replace(label=told[p.label]) if p.kind == "kernel" else p for p in points]


def readable(label: str) -> str:
    """One kernel's name."""
    return _signature(label) if "(" in label or "<" in label else plain(label)


def _convolution(found: re.Match[str]) -> str:
    kind, batch, groups, into, out, high, _, kernel, stride, wide, _, across = found.groups()
    told = f"{_words(kind)} {batch}×{into}→{out}"
    told += f", {high}×{wide}" if wide else f", {high} high"
    told += f", {kernel}×{across}" if across else f", kernel {kernel}"
    told += f", stride {stride}" if stride != "1" else ""
    return told + (f", {groups} groups" if groups and groups != "1" else "")


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _signature(label: str) -> str:
    """Of a C++ signature the function's own name, and what it does to elements where that is a parameter."""
    front, inside = _split(label.removeprefix("void ").replace("<unnamed>::", "").strip())
    name = front.rpartition("::")[2].rpartition(" ")[2]
    if name in _NAMELESS or not name:
        return inside.strip("<>").partition(">(")[0] if name.startswith("Kernel") else label
    does = [next(filter(None, words)) for words in _FUNCTORS.findall(inside)]
    does = [word.strip("_") for word in does if not word.endswith(_WRAPPERS)]
    return f"{name} ({does[-1]})" if does else name


def _split(signature: str) -> tuple[str, str]:
    """What stands before the first bracket, and the rest."""
    at = min((signature.find(sign) for sign in "<(" if sign in signature), default=len(signature))
    return signature[:at], signature[at:]
