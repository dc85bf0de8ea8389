"""The FLOPs of the model: as somebody gives them, by formula, or those executed where nothing recomputes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from roofline.answers.model_flops import ModelFlops
from roofline.answers.precisions import precision_called, unknown
from roofline.answers.values import Provenance, Scope, Value

from ...errors import BadRequest
from ...model.efficiency import Transformer, flops_per_example
from ...model.evidence import RankEvidence
from ...sentences import efficiency as texts

RECOMPUTE_FACT = "setting.recompute"
MOST = 1e30
NUMBERS = ModelFlops._fields[:6]


def checked(asked: ModelFlops) -> ModelFlops:
    """This query, with the precision as it is called here. Raises BadRequest for what cannot be."""
    _check(asked)
    precision = precision_called(asked.precision) if asked.precision else ""
    if precision is None:
        raise BadRequest(unknown(asked.precision))
    return asked._replace(precision=precision)


def _check(asked: ModelFlops) -> None:
    for name in NUMBERS:
        value = getattr(asked, name)
        if value is not None and not 0 < value <= MOST:
            raise BadRequest(f"{name} = {value:g}: must be more than 0, and at most {MOST:g}")
    ways = [asked.flops_per_example, asked.flops_per_step, asked.parameters]
    if sum(one is not None for one in ways) > 1:
        raise BadRequest("the model's FLOPs are given in several ways: give one of them")
    if (asked.parameters is None) != (asked.tokens_per_example is None):
        raise BadRequest("parameters and tokens per example are given together")
    if (asked.layers is None) != (asked.hidden is None):
        raise BadRequest("layers and hidden are given together")
    if asked.parameters is None and (asked.layers is not None or asked.causal):
        raise BadRequest("layers, hidden and causal are of a transformer: give its parameters, too")
    if asked.causal and asked.layers is None:
        raise BadRequest("causal is how attention counts, of which layers and hidden are needed")


def model_flops(rank: RankEvidence, executed: Value, facts: Mapping[str, str], asked: ModelFlops) -> Value:
    """FLOPs of the model in a step of the rank."""
    if asked.flops_per_step is not None:
        return _known(asked.flops_per_step, Provenance.REPORTED, texts.GIVEN)
    if asked.flops_per_example is not None:
        return _of_examples(rank, asked.flops_per_example, Provenance.REPORTED, texts.GIVEN)
    if asked.parameters is not None and asked.tokens_per_example is not None:
        model = Transformer(
            asked.parameters, asked.tokens_per_example, asked.layers or 0.0, asked.hidden or 0.0, asked.causal
        )
        source = texts.by_formula(asked.parameters, asked.layers is not None, asked.causal)
        return _of_examples(rank, flops_per_example(model), Provenance.ANALYTIC, source)
    if executed.value is None:
        return executed._replace(reason=texts.not_given(executed.reason))
    if RECOMPUTE_FACT in facts:
        return Value(None, "FLOP", reason=texts.recomputes(facts[RECOMPUTE_FACT]))
    return executed._replace(reason=texts.SAME_AS_EXECUTED)


def _of_examples(rank: RankEvidence, each: float, origin: Provenance, source: str) -> Value:
    examples = rank.steps.examples[rank.steps.examples > 0]
    if not len(examples):
        return Value(None, "FLOP", reason=texts.NO_EXAMPLES)
    return _known(each * float(np.mean(examples)), origin, source)


def _known(flops: float, origin: Provenance, source: str) -> Value:
    return Value(flops, "FLOP", origin, Scope.PROCESS, None, source)
