"""Readable names of kernels, "convolution backward data 16×64→64, 56×56, 3×3" or "gemm 1024×32×768 TN": what
distinguishes the descriptors of oneDNN and MKL and C++ signatures from each other.

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

# mb16_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1, perhaps with groups and a depth. Its end may be cut
# off.
_CONVOLUTION = re.compile(
    r"((?:backward|forward)_?\w*) mb(\d+)_(?:g(\d+))?ic(\d+)oc(\d+)_(?:id\w+?_)?"
    r"ih(\d+)oh(\d+)kh(\d+)sh(\d+)[a-z0-9]*(?:_iw(\d+)ow(\d+)(?:kw(\d+))?\w*)?…?"
)
_INNER = re.compile(r"((?:backward|forward)_?\w*) mb(\d+)(?:ih\d+iw\d+)?ic(\d+)oc(\d+)")
# gemm N,T,m,n,k,... followed by pointers and leading dimensions.
_GEMM = re.compile(r"\b(\w*gemm\w*) ([NTC]),([NTC]),(\d+),(\d+),(\d+)(?:,[\w*.…]*)*")
_MATMUL = re.compile(r"\b(gemm_api|matmul) (\d+(?:x\d+)*):(\d+(?:x\d+)*)")
# Operations of PyTorch's element-wise kernels: MulFunctor, sum_functor, CUDAFunctor_add,
# direct_copy_kernel_cuda.
_FUNCTORS = re.compile(r"CUDAFunctor_(\w+)|(\w+?)_?[Ff]unctor\b|(\w+?)_kernel_cuda\b")
_WRAPPERS = ("Unary", "Binary")
_NAMELESS = (
    "Kernel",
    "Kernel2",
    "enable_if",
    "kernel",
)  # templates for all operations


def plain(text: str) -> str:
    """Make every descriptor in a sentence or name readable."""
    for pattern, text_of in (
        (_CONVOLUTION, _convolution_text),
        (_INNER, lambda m: f"{_words(m[1])} {m[2]}×{m[3]}→{m[4]}"),
        (_GEMM, lambda m: f"{m[1]} {m[4]}×{m[5]}×{m[6]} {m[2]}{m[3]}"),
        (_MATMUL, lambda m: f"{_words(m[1])} {m[2].replace('x', '×')} · {m[3].replace('x', '×')}"),
    ):
        text = pattern.sub(text_of, text)
    return text


def names(labels: Iterable[str]) -> dict[str, str]:
    """A readable name for each label, all different."""
    found: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        name, count = readable(label), 1
        while name in found.values():
            count += 1
            name = f"{readable(label)}, variant {count}"
        found[label] = name
    return found


def renamed(points: Sequence[Point]) -> list[Point]:
    """Give points that are kernels readable names."""
    readable_names = names(point.label for point in points if point.kind == "kernel")
    return [p._replace(label=readable_names[p.label]) if p.kind == "kernel" else p for p in points]


def readable(label: str) -> str:
    """The name of one kernel. Of a C++ signature: the function, and its operation if that is a parameter."""
    if "<" not in label and "(" not in label:
        return plain(label)
    signature = label.removeprefix("void ").replace("<unnamed>::", "").strip()
    function = re.split("[<(]", signature, maxsplit=1)[0]
    parameters = signature[len(function) :]
    name = function.rpartition("::")[2].rpartition(" ")[2]
    if name.startswith("Kernel") and name in _NAMELESS:
        return parameters.strip("<>").partition(">(")[0]
    if not name or name in _NAMELESS:
        return label
    operations = [next(filter(None, groups)) for groups in _FUNCTORS.findall(parameters)]
    operations = [word.strip("_") for word in operations if not word.endswith(_WRAPPERS)]
    return f"{name} ({operations[-1]})" if operations else name


def _convolution_text(found: re.Match[str]) -> str:
    kind, batch, groups, into, out, high, _, kernel, stride, wide, _, across = found.groups()
    text = f"{_words(kind)} {batch}×{into}→{out}"
    text += f", {high}×{wide}" if wide else f", {high} high"
    text += f", {kernel}×{across}" if across else f", kernel {kernel}"
    if stride != "1":
        text += f", stride {stride}"
    if groups and groups != "1":
        text += f", {groups} groups"
    return text


def _words(kind: str) -> str:
    return kind.replace("_", " ")
