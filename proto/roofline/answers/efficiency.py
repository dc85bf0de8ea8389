"""How well steps use the peaks of where they ran: MFU, HFU, and where the rest of a step goes."""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .values import Value


class UtilisationMeasure(NamedTuple):
    name: str  # mfu, hfu, roofline_utilisation, model_flops, peak, ...
    value: Value
    formula: str


class WaterfallPart(NamedTuple):
    """A part of the mean step; the parts add up to it."""

    part: str  # useful, recompute, precision, memory, kernels, launch, or one of the account
    time: Value  # s a step
    share: Value  # of the step
    formula: str


class Utilisation(NamedTuple):
    """What a rank, or all together, make of their peaks."""

    label: str  # "2 ranks", "worker:0"
    rank: str  # "": of all
    host: str  # of one rank
    precision: str  # of the peaks; "": not known
    steps: int  # that it is of
    measures: list[UtilisationMeasure]
    waterfall: list[WaterfallPart]  # empty: there are no steps


class Efficiency(NamedTuple):
    about: About
    sentence: str  # the answer in one line
    whole: Utilisation
    ranks: list[Utilisation]
    notes: list[str]
