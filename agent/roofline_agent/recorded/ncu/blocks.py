"""The launches of a block by the linear forms of their table: column by column, instead of one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cells import Array, Distinct
from ..columns import combined, spread
from ..recording import Launch, LaunchColumns
from .flops import named
from .launches import LaunchBlock, problem
from .linear import FormKey, LinearReading, Terms

NO_NAME = "(no name)"  # of a kernel


class Kinds(NamedTuple):
    """Launches that may be read by one form are of a kind."""

    keys: list[FormKey]
    kernels: list[str]  # that of the first launch of each
    which: Array  # the kind of each launch

    def count(self, kind: int) -> int:
        return int((self.which == kind).sum())


class LinearLaunches(NamedTuple):
    """Launches of a block that have one form."""

    form: LinearReading
    launches: LaunchColumns


def kinds_of(block: LaunchBlock, needed: Sequence[int]) -> Kinds | None:
    """None for pages that print means of several launches. needed: metrics that a reading may follow from."""
    counts = block.distinct("invocations")
    kernels, ccs = block.distinct("kernel name"), block.distinct("cc")
    if kernels is None or (counts is not None and not {"", "1"}.issuperset(map(str.strip, counts.texts))):
        return None
    shown = [named(kernel) for kernel in kernels.texts]
    names = spread(list(map({one: at for at, one in enumerate(shown)}.__getitem__, shown)), kernels.which)
    block.columns.read_numbers(sorted({block.cells[metric][0] for metric in needed}))
    zeros = [block.numbers(metric) == 0 for metric in needed]
    firsts, which = combined([names, *([ccs.which] if ccs is not None else []), *zeros])
    found = Kinds([], [], which)
    for first in firsts.tolist():
        kernel = kernels.texts[kernels.which[first]].strip()
        cc = ccs.texts[ccs.which[first]].strip() if ccs is not None else ""
        mine = tuple(metric for metric, zero in zip(needed, zeros, strict=True) if zero[first])
        found.keys.append((named(kernel), cc, mine))
        found.kernels.append(kernel)
    return found


def in_columns(
    block: LaunchBlock, kinds: Kinds, forms: Sequence[LinearReading | None], wanted: Array, with_sizes: bool
) -> Iterator[LinearLaunches]:
    """The wanted launches that have a form and can be read by it. forms: of each kind."""
    kernels = block.distinct("kernel name")
    if kernels is None:
        return
    names = [name.strip() or NO_NAME for name in kernels.texts]
    for form in {id(form): form for form in forms if form is not None}.values():
        is_mine = wanted.copy()
        if any(one is not form for one in forms):
            is_mine &= spread([one is form for one in forms], kinds.which)
        for metric in form.used:
            is_mine &= block.numbers(metric) > 0  # not NaN either
        places = is_mine.nonzero()[0]
        if not len(places):
            continue
        values = {metric: block.numbers(metric)[places] for metric in form.used}
        launches = LaunchColumns(
            Launch("", None, precision=form.precision, library="cuda", note=form.note),
            names,
            kernels.which[places],
            places,
            _sum(form.time_s, values),
            _sum(form.flops, values),
            {level: moved for level, terms in form.bytes if (moved := _sum(terms, values)) is not None},
            problems=_problems(block, places) if with_sizes else (),
        )
        yield LinearLaunches(form, launches)


def _sum(terms: Terms | None, values: Mapping[int, Array]) -> Array | None:
    if not terms:
        return None
    (first, by), *others = terms
    total = values[first] * by
    for metric, factor in others:
        total += values[metric] * factor
    return total


def _problems(block: LaunchBlock, places: Array) -> list[str]:
    grids, blocks = (block.distinct(name) for name in ("grid size", "block size"))
    return [problem(_text(grids, at), _text(blocks, at)) for at in places.tolist()]


def _text(words: Distinct | None, at: int) -> str:
    return words.texts[words.which[at]].strip() if words is not None else ""
