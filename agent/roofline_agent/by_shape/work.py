"""Work of products, convolutions, attention and recurrent layers: FLOPs, and bytes if each tensor moves once.

A multiply-add is two FLOPs. Bias, activation, softmax and other pointwise parts are not counted, as in
torch.utils.flop_counter and in analytic counts. Of causal attention only the pairs that the mask leaves are
counted (torch counts all).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple, Sequence  # noqa: UP035  # hooks may import this on Python 3.8

FORWARD, BACKWARD = 1.0, 2.0
ATTENTION_BACKWARD = 2.5  # five products where the forward has two: scores again, dV, dP, dQ, dK
MASK_UNKNOWN = "the mask is not recorded: an upper bound"


class ShapeWork(NamedTuple):
    """Of one call. elements: of all tensors, each once; parts: products of equal size that it consists of;
    outputs: those of the elements that a product writes, which may have another type than it reads."""

    flops: float
    elements: int
    parts: int = 1
    note: str = ""
    outputs: int = 0


class OperatorWork(NamedTuple):
    """What one call must do at least. bytes: each tensor moved once, None where a type's size is unknown."""

    flops: float
    bytes: float | None
    precision: str
    parts: int
    note: str


def reading(more: int, work: ShapeWork | None) -> ShapeWork | None:
    """With so many elements more that are read."""
    return work and work._replace(elements=work.elements + more)


def product(a: Sequence[int], b: Sequence[int], times: float = 1.0) -> ShapeWork | None:
    """a (..., m, k) times b (..., k, n), with the same batches; also with a vector b (k)."""
    if len(b) == 1 and a and a[-1] == b[0]:
        return ShapeWork(times * 2.0 * prod(a), prod(a) + b[0] + prod(a[:-1]), outputs=prod(a[:-1]))
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    out = prod(a[:-1]) * b[-1]
    return ShapeWork(times * 2.0 * out * a[-1], prod(a) + prod(b) + out, outputs=out)


def grouped_product(a: Sequence[int], b: Sequence[int], groups: int) -> ShapeWork | None:
    """Products of different size that lie in a tensor one behind the other (torch.nn.functional.grouped_mm):
    a (m, k) or (groups, m, k) times b (k, n) or (groups, k, n), each row or column in one group."""
    if len(a) == len(b) == 3:
        return product(a, b)
    if not 2 <= min(len(a), len(b)) <= max(len(a), len(b)) <= 3 or a[-1] != b[-2]:
        return None
    # Groups along k make a product each, together as many FLOPs as one.
    out = a[-2] * b[-1] * (groups if len(a) == len(b) else 1)
    return ShapeWork(2.0 * a[-2] * a[-1] * b[-1], prod(a) + prod(b) + out, outputs=out)


def linear(x: Sequence[int], weight: Sequence[int]) -> ShapeWork | None:
    """x (..., k) times the transpose of weight (n, k)."""
    if not x or len(weight) != 2 or x[-1] != weight[1]:
        return None
    out = prod(x[:-1]) * weight[0]
    return ShapeWork(2.0 * out * weight[1], prod(x) + prod(weight) + out)


class ConvolutionWindow(NamedTuple):
    """How a convolution's kernel goes over its input: one number per spatial dimension, or one for all."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    is_transposed: bool = False
    output_padding: Sequence[int] = (0,)
    groups: int = 1  # of a transposed one, whose shapes do not tell


def convolution(x: Sequence[int], weight: Sequence[int], window: ConvolutionWindow) -> ShapeWork | None:
    """x (n, c_in, *in), weight (c_out, c_in / groups, *kernel), its first two exchanged if transposed."""
    spatial = len(weight) - 2
    if spatial < 1 or len(x) not in (len(weight), len(weight) - 1):
        return None
    batch, inside = (x[0] if len(x) == len(weight) else 1), x[len(x) - spatial :]
    out = [_out(window, inside[i], weight[2 + i], i) for i in range(spatial)]
    if min(out) < 1:
        return None
    places = prod(inside if window.is_transposed else out)
    channels = weight[1] * window.groups if window.is_transposed else weight[0]
    moved = prod(x) + prod(weight) + batch * channels * prod(out)
    return ShapeWork(2.0 * batch * places * prod(weight), moved)


def _out(window: ConvolutionWindow, size: int, kernel: int, at: int) -> int:
    """Size of the output in one dimension (torch.nn.Conv2d, torch.nn.ConvTranspose2d)."""
    stride, padding = _of(window.stride, at), _of(window.padding, at)
    reach = _of(window.dilation, at) * (kernel - 1)
    if window.is_transposed:
        return (size - 1) * stride - 2 * padding + reach + _of(window.output_padding, at) + 1
    return (size + 2 * padding - reach - 1) // max(1, stride) + 1


def _of(values: Sequence[int], at: int) -> int:
    return values[at] if at < len(values) else values[-1]


def convolution_backward(
    grad: Sequence[int], x: Sequence[int], weight: Sequence[int], is_transposed: bool, mask: Sequence[bool]
) -> ShapeWork | None:
    """Gradients of input and weight, those that `mask` asks for; each is as many FLOPs as the forward."""
    if not len(grad) == len(x) == len(weight) > 2 or len(mask) < 2:
        return None
    parts = sum(mask[:2])
    places = prod((x if is_transposed else grad)[2:])
    # That of the input needs the weight, that of the weight the input; each is as large as what it is of.
    moved = prod(grad) + parts * (prod(weight) + prod(x))
    return ShapeWork(2.0 * parts * x[0] * places * prod(weight), moved, max(1, parts))


class AttentionMask(NamedTuple):
    """Query i sees keys i - back to i + ahead, None: all on that side; is_at_end: counted such that the last
    query stands at the last key, else the first at the first."""

    back: int | None = None
    ahead: int | None = None
    is_at_end: bool = False


def attention(
    query: Sequence[int],
    key: Sequence[int],
    value: Sequence[int],
    mask: AttentionMask | None,
    factor: float = FORWARD,
) -> ShapeWork | None:
    """query (batch, heads, length, width), key and value the same with their own length, and heads that a
    number of query heads may share. mask None: nobody knows."""
    if not len(query) == len(key) == len(value) == 4 or query[3] != key[3] or key[2] != value[2]:
        return None
    batch, heads, length, width = query
    pairs = _pairs(mask or AttentionMask(), length, key[2])
    flops = 2.0 * batch * heads * pairs * (width + value[3])
    moved = prod(query) + prod(key) + prod(value) + batch * heads * length * value[3]
    times = 1 if factor == FORWARD else 2  # backward: the gradients too
    return ShapeWork(factor * flops, times * moved, 1, "" if mask is not None else MASK_UNKNOWN)


def _pairs(mask: AttentionMask, queries: int, keys: int) -> int:
    shift = keys - queries if mask.is_at_end else 0
    to_last = queries * keys if mask.ahead is None else _pairs_up_to(shift + mask.ahead, queries, keys)
    before_first = 0 if mask.back is None else _pairs_up_to(shift - mask.back - 1, queries, keys)
    return max(0, to_last - before_first)


def _pairs_up_to(last: int, queries: int, keys: int) -> int:
    """If query i sees keys 0 to i + last."""
    return _sum_of_keys(last + queries, keys) - _sum_of_keys(last, keys)


def _sum_of_keys(last: int, keys: int) -> int:
    """Sum of n, but at most `keys`, over all n from 0 to `last`."""
    whole = min(max(last, 0), keys)
    return whole * (whole + 1) // 2 + max(last - whole, 0) * keys


def recurrent(
    x: Sequence[int], weights: Sequence[Sequence[int]], factor: float = FORWARD, directions: int = 1
) -> ShapeWork | None:
    """LSTM, GRU or RNN over x (..., features), by all of its weights of all layers and directions.

    Each matrix is applied once to every element of the sequence (input, recurrent and projection weights).
    """
    matrices = [prod(one) for one in weights if len(one) == 2]
    if len(x) < 2 or not matrices:
        return None
    # Of what is between the layers nothing need leave the chip; the last layer is as wide as its recurrence.
    rows, width = prod(x[:-1]), next(one[1] for one in reversed(weights) if len(one) == 2)
    moved = prod(x) + directions * rows * width + sum(map(prod, weights))
    return ShapeWork(factor * 2.0 * rows * sum(matrices), int(factor) * moved)
