"""The launches of a block by the linear forms of their table: column by column, instead of one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from ..columns import numbers
from ..recording import LaunchColumns
from .linear import FormKey, LinearReading, zeros
from .table import LaunchBlock, problem
from .values import quick_number

T = TypeVar("T")
Form = LinearReading | None


class LinearLaunches(NamedTuple):
    """Launches of a block that have one form."""

    form: LinearReading
    places: Sequence[int]  # in the block
    launches: LaunchColumns


def form_keys(block: LaunchBlock, cc: str) -> list[FormKey]:
    """Of each launch; none of pages that print means of several. cc: where the block has none."""
    if not {"", "1"}.issuperset(block.cells("invocations")):
        return []
    ccs = [one or cc for one in block.cells("cc")]
    patterns = zip(*map(zeros, block.values), strict=True)
    return list(zip(block.cells("kernel name"), ccs, patterns, strict=True))


def in_columns(block: LaunchBlock, forms: Sequence[Form], with_sizes: bool) -> Iterator[LinearLaunches]:
    """The launches that have a form and can be read by it."""
    kernels = block.cells("kernel name")
    problems = [""] * len(kernels)
    if with_sizes:
        problems = list(map(problem, block.cells("grid size"), block.cells("block size")))
    columns: dict[int, Sequence[float | None]] = {}
    for form, places in _by_form(forms):
        for used in form.used:
            if used not in columns:
                columns[used] = _numbers(block.values[used])
            if None in columns[used]:
                places = [at for at in places if columns[used][at] is not None]
        if places:
            values = {used: _picked(columns[used], places) for used in form.used}
            launches = form.launches(_picked(kernels, places), values, _picked(problems, places))
            yield LinearLaunches(form, places, launches)


def _by_form(forms: Sequence[Form]) -> Iterator[tuple[LinearReading, Sequence[int]]]:
    """Each form and the places of the launches that have it."""
    places: dict[int, Sequence[int]] = {}
    if len(set(map(id, forms))) == 1:
        places = {0: range(len(forms))}
    else:
        listed: dict[int, list[int]] = {}
        for at, form in enumerate(forms):
            listed.setdefault(id(form), []).append(at)
        places.update(listed)
    for mine in places.values():
        found = forms[mine[0]]
        if found is not None:
            yield found, mine


def _picked(column: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    return column if len(places) == len(column) else [column[at] for at in places]


def _numbers(cells: Sequence[str]) -> Sequence[float | None]:
    """None for what is no number above zero."""
    plain = numbers(cells, has_groups=True)
    if plain is not None and min(plain) > 0:
        return plain
    found = plain if plain is not None else map(quick_number, cells)
    return [one if one is not None and one > 0 else None for one in found]
