"""Which ranks of a job train."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.evidence import RankEvidence
from ..ranks.members import roles_aside

Ranks = dict[int, RankEvidence]


def training_ranks(evidence: Mapping[int, RankEvidence]) -> Ranks:
    """The ranks that train and may hold each other up, by their numbers; where there are none, who else has
    steps of its own. evidence: of all ranks of the job."""
    aside = roles_aside({rank.role for rank in evidence.values()})
    own = _with_own_steps(evidence)
    return {number: rank for number, rank in own.items() if rank.role not in aside} or own


def contributing_ranks(evidence: Mapping[int, RankEvidence]) -> Ranks:
    """The ranks whose steps are the job's: a chief that trains next to parameter servers (TensorFlow 1) among
    them. Those of an evaluator are not, unless nobody else has any."""
    own = _with_own_steps(evidence)
    return {number: rank for number, rank in own.items() if rank.role != "evaluator"} or own


def _with_own_steps(evidence: Mapping[int, RankEvidence]) -> Ranks:
    """Who serves has no others than those of the ranks that he serves."""
    return {n: rank for n, rank in evidence.items() if len(rank.steps.step) and not rank.serving}
