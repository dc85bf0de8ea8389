"""How well steps use the peaks: what each number is made of, where FLOPs come from, what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.texts import listed

from .verdict import parts_named
from .wording import many, number, title

# -- formulas ---------------------------------------------------------------------------------------------

FORMULAS: Mapping[str, str] = {
    "step": "mean from the end of one steady step to the end of the next",
    "model_flops": "FLOPs of the model's forward and backward, a step",
    "executed_flops": "FLOPs of all that was executed, a step",
    "peak": "measured peak of the places of these ranks, dense",
    "peak.theoretical": "theoretical peak of the same places, dense",
    "peak.sparse": "2 x the theoretical dense peak: products of which two of four weights are zero",
    "mfu": "model FLOPs / (step x measured peak)",
    "mfu.theoretical": "model FLOPs / (step x theoretical peak)",
    "mfu.sparse": "model FLOPs / (step x sparse peak)",
    "hfu": "executed FLOPs / (step x measured peak)",
    "hfu.theoretical": "executed FLOPs / (step x theoretical peak)",
    "attainable": "min(peak, FLOP/byte x byte/s of memory, of network) at the measured intensity",
    "roofline_utilisation": "executed FLOPs / (step x attainable FLOP/s)",
    "useful": "model FLOPs / peak",
    "executed": "executed FLOPs / peak: the model's share is not known",
    "recompute": "(executed - model FLOPs) / peak",
    "precision": "FLOPs at the peaks of their precisions, beyond the above",
    "memory": "bytes / bandwidth, beyond the above",
    "kernels": "time of kernels, beyond the above",
    "launch": "kernels x launch overhead, of the host's time",
}
OF_ACCOUNT = "account of the step"


def ranks(count: int) -> str:
    return many(count, "rank")


def its_part(parts: float) -> str:
    return f"one of {number(parts)} equal parts: as many ranks compute there"


# -- where FLOPs come from --------------------------------------------------------------------------------

GIVEN = "as given"
SAME_AS_EXECUTED = "those executed: nothing indicates that any were computed twice"
RECOMPUTES = (
    "activations are computed a second time ({how}), so the FLOPs executed are more than the model's: give "
    "--model-flops, or --parameters and --tokens-per-example"
)
NOT_OF_GPU = "its GPU's kernels were not recorded, and FLOPs that its CPUs counted are not the training's"
UPDATES = "only updates of its variables are known, which are not FLOPs of the model"
NOT_GIVEN = "{why}; --model-flops, or --parameters and --tokens-per-example, give the model's"
NO_EXAMPLES = "it is not known how many examples a step has: give FLOPs a step, as --model-flops 6.2e12/step"


def recomputes(how: str) -> str:
    return RECOMPUTES.format(how=how)


def not_given(why: str) -> str:
    return NOT_GIVEN.format(why=why)


def by_formula(parameters: float, has_attention: bool, causal: bool) -> str:
    """Of a transformer."""
    attention = "no attention counted: give --layers and --hidden"
    if has_attention:
        attention = "6 L H T of causal attention" if causal else "12 L H T of attention in full"
    return (
        f"6 x {number(parameters / 1e6)} M parameters a token + {attention} "
        "(Chowdhery et al. 2022, PaLM, appendix B)"
    )


# -- the answer -------------------------------------------------------------------------------------------


def answer(mfu: float, precision: str, theory: bool, losses: Sequence[tuple[str, float]]) -> str:
    """losses: (part, share of the step), the largest first."""
    peak = f"{'theoretical' if theory else 'measured'} {title(precision)} peak".replace("  ", " ")
    lost = ", ".join(f"{loss_named(part)} {share:.0%}" for part, share in losses)
    return f"MFU {mfu:.1%} of the {peak}" + (f"; most of the rest: {lost}" if lost else "")


def unknown(why: str) -> str:
    return f"MFU is not known: {why}"


_LOSSES: Mapping[str, str] = {
    "executed": "executed FLOPs",
    "recompute": "recomputed activations",
    "precision": "slower precisions",
    "memory": "memory bandwidth",
    "kernels": "kernels below their roof",
    "launch": "starting kernels",
}


def loss_named(part: str) -> str:
    return _LOSSES.get(part) or parts_named(part)


# -- what to know -----------------------------------------------------------------------------------------

NO_SPARSE = "no tensor cores skip zeros here in this precision"
NO_THEORY = "the theoretical peak of where it ran is not known"
NO_PEAK_OF_PRECISION = "no precision is known: --precision names that of the peak"
ONLY_THEORY = "the peak of where it ran was not measured"
OTHER_PRECISIONS = "ranks compute in different precisions: each is compared with the peak of its own"
RECOMPUTE_SEEN = "recomputed activations are noticed only in PyTorch (torch.utils.checkpoint, uncompiled)"


def exceeds(model: float, executed: float) -> str:
    ratio = model / executed
    much = f"{ratio:.0%} of" if ratio < 10 else f"{number(ratio)} times"
    if ratio >= 1e6:
        much = f"{number(ratio / 1e6)} million times"
    return (
        f"the model's FLOPs as given are {much} the executed FLOPs, which is impossible: "
        "the formula counts what is not computed (causal attention in full, 6 N of parameters "
        "that not every example uses, gradients of the input), or not all that was executed was seen"
    )


def above_peak(mfu: float) -> str:
    return f"an MFU of {mfu:.1%} is impossible: too many FLOPs are counted, or the peak was measured too low"


def beyond(share: float) -> str:
    return (
        f"FLOPs at the peak need {share:.0%} of the step more than was computed: the waterfall "
        "shows what fits, so its first part is less than the MFU"
    )


def left_out(ranks: Sequence[str], of: int) -> str:
    return f"of {of} ranks these are left out of the total, because less is known about them: {listed(ranks)}"


def no_peak_of(precisions: Sequence[str]) -> str:
    names = listed([title(one) for one in precisions])
    whose = "its" if len(precisions) == 1 else "their"
    return f"no peak was measured in {names}: {whose} FLOPs count at the peak of the others"
