"""How well steps use the peaks of where they ran: MFU, HFU, and where the rest of a step goes.

What is asked of the model's FLOPs is a record of both sides, too.
"""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .values import Value


class ModelFlops(NamedTuple):
    """FLOPs that the model needs, forward and backward, and the peak they are compared with.

    The FLOPs of an example, or of a step of a rank; or those of a transformer by its parameters, with layers
    and hidden (heads x width of a head) for its attention, of which half counts if it is causal. None of
    these: what was executed. precision: of the peak ("bf16"); "": that of most FLOPs. sparse: also against
    the sparse peak.
    """

    flops_per_example: float | None = None
    flops_per_step: float | None = None
    parameters: float | None = None
    tokens_per_example: float | None = None
    layers: float | None = None
    hidden: float | None = None
    causal: bool = False
    precision: str = ""
    sparse: bool = False


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
