"""What is asked about an efficiency: the FLOPs that a model needs, and the peak they are compared with."""

from __future__ import annotations

from typing import NamedTuple


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
