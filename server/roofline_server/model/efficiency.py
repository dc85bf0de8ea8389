"""How much of a step is the model's arithmetic at the peak of where it ran, and where the rest goes.

- MFU, model FLOPs utilisation: FLOPs of the model's forward and backward over step time x peak FLOP/s
  (Chowdhery et al. 2022, PaLM, section 4.1 and appendix B). What is computed a second time is not counted.
- HFU, hardware FLOPs utilisation: the same of all FLOPs that were executed (ibid.; Korthikanti et al. 2022,
  appendix A).
- The peak is that of dense operations. A sparse peak (two of four weights are zero) counts each zero as work
  done: it is twice as high, and MFU against it half of what it is.

A multiply-add is two FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

USEFUL, RECOMPUTE, PRECISION, MEMORY, LAUNCH = "useful", "recompute", "precision", "memory", "launch"
EXECUTED = "executed"  # stands for the first two where it is not known what of it is the model's
KERNELS = "kernels"  # what is left of the time of kernels
SAME = 0.02  # two counts of FLOPs, or two times, that differ by less are the same
SPARSE = 2.0  # the sparse peak of tensor cores over their dense one: NVIDIA's white papers of A100 and H100
SPARSE_PRECISIONS = ("tf32", "f16", "bf16", "f8", "f8_e4m3", "f8_e5m2", "s8")


# -- FLOPs of models --------------------------------------------------------------------------------------


class Transformer(NamedTuple):
    """A dense transformer. parameters: by which each token is multiplied; an embedding that is only looked up
    is none of them, the layer that gives the output is. tokens: of an example, the length that it attends
    to. layers, hidden: their number and width (heads x width of a head); 0: attention is left out."""

    parameters: float
    tokens: float
    layers: float = 0.0
    hidden: float = 0.0
    causal: bool = False


def flops_per_token(model: Transformer) -> float:
    """Forward and backward of one token: 6 N + 12 L H T; of causal attention half, 6 N + 6 L H T.

    Chowdhery et al. 2022, appendix B (there H is the number of heads, Q their width: 12 L H Q T); 6 N also
    Hoffmann et al. 2022, appendix F. 2 N of it are forward, 4 N backward. Attention, forward: two products of
    2 H T each a layer, backward: four. The mask of causal attention leaves T/2 keys a token in the mean, and
    a kernel that knows the mask computes no others.
    """
    attention = 12.0 * model.layers * model.hidden * model.tokens
    return 6.0 * model.parameters + (attention / 2 if model.causal else attention)


def flops_per_example(model: Transformer) -> float:
    """FLOPs of all tokens of an example."""
    return model.tokens * flops_per_token(model)


# -- ratios -----------------------------------------------------------------------------------------------


def sparse_peak(dense: float, precision: str) -> float | None:
    """FLOP/s of products of which two of four weights are zero; None: no tensor cores skip zeros in this
    precision."""
    return SPARSE * dense if precision in SPARSE_PRECISIONS else None


def exceeds_executed(model: float | None, executed: float | None) -> bool:
    """Whether a model is said to have more FLOPs than were executed, which no training does: the formula
    counts what is not computed (causal attention in full, parameters that not all examples use), or not all
    that was executed was seen."""
    return model is not None and executed is not None and model > executed * (1 + SAME)


# -- the waterfall ----------------------------------------------------------------------------------------


class Needs(NamedTuple):
    """Seconds that a step of a rank needs at least; None: not known.

    useful: its model's FLOPs at the peak; executed: all its FLOPs at the peak; precisions: its FLOPs, each at
    the peak of its precision; memory: its bytes at the peak bandwidth; launches: of its kernels, one by one.
    """

    useful: float | None = None
    executed: float | None = None
    precisions: float | None = None
    memory: float | None = None
    launches: float | None = None


class Waterfall(NamedTuple):
    """parts: seconds, which add up to the step. beyond: seconds of what is needed at the peak that do not fit
    into the time in which the rank computed: the peak is too low, or some FLOPs are counted that were not
    executed."""

    parts: dict[str, float]
    beyond: float = 0.0


def waterfall(account: Mapping[str, float], needs: Needs, shared: bool = False) -> Waterfall:
    """The account of a step with its computation divided: what the model's FLOPs need at the peak, then what
    each further need adds to the ones before (Williams, Waterman, Patterson 2009: the largest binds), then
    what kernels took beyond all of them.

    account: part -> seconds, see model.account. Launches are taken from what the host did outside of kernels.
    shared: the peak is a part of a place where other ranks compute too. Who has the whole place in turns
    computes faster than that, and what it then waits for its turn is in what it needs at its part.
    """
    left = dict(account)
    computing = [part for part in left if "compute" in part.split("|")]
    computing += ["contention", "other"] if shared else ["other"]
    reached, beyond = 0.0, 0.0
    parts: dict[str, float] = {}
    second = RECOMPUTE if needs.useful is not None else EXECUTED
    for name, need in zip(
        (USEFUL, second, PRECISION, MEMORY),
        (needs.useful, needs.executed, needs.precisions, needs.memory),
        strict=True,
    ):
        if need is None:
            continue
        wanted = max(0.0, need - reached)
        parts[name] = _take(left, computing, wanted)
        beyond += wanted - parts[name] if name != MEMORY else 0.0  # what is in a cache needs no bandwidth
        reached = max(reached, need)
    if needs.launches is not None:
        hosts = [part for part in left if "host" in part.split("|") and part not in computing]
        parts[LAUNCH] = _take(left, hosts, needs.launches)
    if "compute" in left and (USEFUL in parts or EXECUTED in parts):
        parts[KERNELS] = left.pop("compute")
    return Waterfall(parts | left, beyond)


def _take(left: dict[str, float], parts: Iterable[str], wanted: float) -> float:
    """Take so much from these parts, in order; returns how much there was."""
    missing = wanted
    for part in parts:
        got = min(missing, left.get(part, 0.0))
        if got > 0:
            left[part] -= got
            missing -= got
    return wanted - missing


# -- several ranks ----------------------------------------------------------------------------------------


class RankSteps(NamedTuple):
    """Steps of one rank in the mean. seconds: of a step; steps: their number; parts: of its waterfall;
    model, executed: FLOP a step; peak, theory: FLOP/s that are its own; None: not known."""

    seconds: float
    steps: int
    parts: Mapping[str, float]
    model: float | None = None
    executed: float | None = None
    peak: float | None = None
    theory: float | None = None


def utilisation_of(ranks: Sequence[RankSteps], which: str, peak: str = "peak") -> float | None:
    """FLOPs of all steps of all ranks over what their peaks could have done in them: MFU or HFU. A rank that
    waits lowers it. which: "model", "executed"; peak: "peak", "theory". None: not known of all."""
    done = could = 0.0
    for rank in ranks:
        flops, most = getattr(rank, which), getattr(rank, peak)
        if flops is None or most is None:
            return None
        done += rank.steps * flops
        could += rank.steps * rank.seconds * most
    return done / could if could > 0 else None


def mean_waterfall(ranks: Sequence[RankSteps]) -> dict[str, float]:
    """Seconds of the mean step, which the parts add up to: a second of a rank counts as much as its peak,
    where that is known of all, so that the share of USEFUL is the MFU of all."""
    weights = [rank.steps * (rank.peak or 0.0) for rank in ranks]
    if not all(weights):
        weights = [float(rank.steps) for rank in ranks]
    total = sum(weights)
    found: dict[str, float] = {}
    for rank, weight in zip(ranks, weights, strict=True):
        for part, seconds in rank.parts.items():
            found[part] = found.get(part, 0.0) + weight * seconds
    return {part: seconds / total for part, seconds in found.items()} if total > 0 else {}
