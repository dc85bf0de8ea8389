"""Formulas of attention, of PyTorch and flash_attn: which arguments are query, key and value, and which say
what the mask leaves. The operators are in torch_operators.py."""

from __future__ import annotations

from typing import Sequence  # noqa: UP035  # hooks may import this on Python 3.8

from .torch_arguments import Arguments, Formula
from .work import FORWARD, AttentionMask, ShapeWork, attention, reading


def sdpa(causal: int, first: int = 0, factor: float = FORWARD, bias: int = 0) -> Formula:
    """Of scaled_dot_product_attention. bias: position of what is added to the scores."""

    def formula(given: Arguments) -> ShapeWork | None:
        query, key, value = (given.shape(first + i) for i in range(3))
        is_causal = given.flag(causal)
        mask = None if is_causal is None else AttentionMask(ahead=0 if is_causal else None)
        return reading(_bias(given, first, bias), attention(query, key, value, mask, factor))

    return formula


def _bias(given: Arguments, query: int, at: int) -> int:
    """Elements of what is added to the scores; a mask of bits is small."""
    return given.elements(at) if at and given.kind(at) == given.kind(query) else 0


def _flash_mask(given: Arguments, causal: int, window: int = 0) -> AttentionMask | None:
    """How far queries see back and ahead follows `causal`, or is at `window` where there is one; -1: to the
    end. None: not recorded."""
    is_causal = given.flag(causal)
    back, ahead = (given.numbers((window or causal + 1) + i) or [-1] * bool(window) for i in range(2))
    if is_causal is None or not (back and ahead):
        return None
    seen = 0 if is_causal else ahead[0]
    return AttentionMask(back[0] if back[0] >= 0 else None, seen if seen >= 0 else None, is_at_end=True)


def flash_attention(
    causal: int, first: int = 0, factor: float = FORWARD, window: int = 0, begins: int = 0
) -> Formula:
    """Of flash_attn, and what torch calls for it: (batch, length, heads, width), masks that end with the last
    key, as since 2.1. begins: position of the begins of sequences in a tensor, which are not recorded."""

    def formula(given: Arguments) -> ShapeWork | None:
        shapes = (given.shape(first + i) for i in range(3))
        query, key, value = ([s[0], s[2], s[1], s[3]] for s in shapes)
        if begins and given.shape(begins):
            return None
        return attention(query, key, value, _flash_mask(given, causal, window), factor)

    return formula


def efficient_attention(
    mask: int, window: int, begins: int, first: int = 0, factor: float = FORWARD
) -> Formula:
    """(batch, length, heads, width). mask: position of its kind, 0 none, 1 the first query sees the first
    key, 2 the last all keys; window: of how far back they see; begins: as of `flash_attention`."""

    def formula(given: Arguments) -> ShapeWork | None:
        query, key, value = ([s[0], s[2], s[1], s[3]] for s in (given.shape(first + i) for i in range(3)))
        if given.shape(begins):
            return None
        kind, seen = given.numbers(mask), None
        if kind and not given.numbers(window):
            seen = AttentionMask(ahead=0 if kind[0] else None, is_at_end=kind[0] == 2)
        return reading(_bias(given, first, first + 3), attention(query, key, value, seen, factor))

    return formula


def flash_attention_varlen(lengths: int, first: int = 0, factor: float = FORWARD) -> Formula:
    """Sequences one behind the other, (all lengths, heads, width). `lengths`: position of the begins of
    queries, which those of keys, the two greatest lengths, dropout, scale and the mask follow. What is in
    tensors is not recorded, so the work is known only of one sequence or of such as have one length."""

    def formula(given: Arguments) -> ShapeWork | None:
        query, key, value = (given.shape(first + i) for i in range(3))
        many = given.shape(lengths)[0] - 1
        has_pages = factor == FORWARD and any(given.shape(at) for at in (15, 16, 17))
        if has_pages or not (
            _is_even(query[0], many, given.numbers(lengths + 2))
            and _is_even(key[0], many, given.numbers(lengths + 3))
        ):
            return None
        query, key, value = ([many, one[1], one[0] // many, one[2]] for one in (query, key, value))
        return attention(query, key, value, _flash_mask(given, lengths + 6), factor)

    return formula


def _is_even(total: int, many: int, longest: Sequence[int]) -> bool:
    """Whether so many sequences of this length in all must have one length each."""
    return many == 1 or (many > 1 and len(longest) == 1 and longest[0] * many == total)
