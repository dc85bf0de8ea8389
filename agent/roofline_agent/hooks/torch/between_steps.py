"""PyTorch: what lies between two steps and is part of none: evaluations and checkpoints.

Pure logic. A step begins where the one before ended, unless something else was seen between the two; then
it begins where the last of that ended. What is certain (a checkpoint, a DataLoader read without gradients)
counts always. What may as well be part of the loop (gradients off, a model in eval mode) counts where it
lasts and the step before had nothing of the kind: what is done before every step belongs to the steps.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

EVALUATION, CHECKPOINT, OTHER = "between.evaluation", "between.checkpoint", "between.other"
WITHOUT_GRADIENTS = "between.without_gradients"  # an evaluation, rollouts, a teacher: which is not known
TRACE = "between.trace"  # a profiler is started, or stopped and its trace written (tracing.py)
KINDS = (CHECKPOINT, EVALUATION, TRACE, WITHOUT_GRADIENTS)  # the first of several at a time counts
EVALUATES = {EVALUATION, WITHOUT_GRADIENTS}
SHORTEST_NS = 100000  # of what is not certain; it must also last SHARE of its step
SHARE = 0.2
USUAL = 8  # a pause so many times as long as the one before lies between steps
GAP_NS = 1000000  # what lies next to an evaluation and is shorter counts to it

Piece = Tuple[str, int, int]


class _Stretch(NamedTuple):
    kind: str
    begin: int
    end: int
    certain: bool


class Between:
    """Stretches since a border in which the training did something else."""

    def __init__(self) -> None:
        self.stretches: List[_Stretch] = []
        self.since: Optional[int] = None  # the model went into eval mode
        # The last step before which something was seen that is not certain, and how long that lasted.
        self._last, self._lasted = 0, 0

    def add(self, kind: str, begin: int, end: int, certain: bool) -> None:
        """Something of this kind was seen, and no training inside it."""
        last = self.stretches[-1] if self.stretches else None
        if last is not None and (last.kind is kind or {last.kind, kind} == EVALUATES):
            # One evaluation calls many things.
            kind = kind if last.kind is kind else EVALUATION
            begin, certain = min(last.begin, begin), certain or last.certain
            self.stretches[-1] = _Stretch(kind, begin, max(last.end, end), certain)
        elif kind in EVALUATES and last is not None and self._ended_before(last, begin):
            # What follows the checkpoint is no second one.
            whole = _Stretch(kind, begin, last.begin, certain)
            if end - last.end < GAP_NS:
                self.stretches[-1:] = [whole, last._replace(end=max(last.end, end))]
            else:
                self.stretches[-1:] = [whole, last, _Stretch(OTHER, last.end, end, certain)]
        else:
            self.stretches.append(_Stretch(kind, begin, end, certain))

    def _ended_before(self, last: _Stretch, begin: int) -> bool:
        """Whether all that was seen of an evaluation that began then was before `last`, a checkpoint."""
        return begin <= last.begin and any(
            one.kind in EVALUATES and begin < one.end for one in self.stretches
        )

    def before(self, step: int, border: int, limit: int, end: int) -> List[Piece]:
        """The pieces from `border` to the begin of this step, which trained from `limit` on and is over at
        `end`; [] if it began at the border."""
        found = [one for one in self.stretches if border <= one.begin and one.end <= limit]
        self.stretches = [one for one in self.stretches if one.begin >= end]
        if not found:
            return []
        if not any(one.certain for one in found) and not self._unusual(step, found, end):
            return []
        return pieces(border, found)

    def _unusual(self, step: int, found: List[_Stretch], end: int) -> bool:
        lasts = max(one.end - one.begin for one in found)
        before = self._lasted if self._last == step - 1 else 0
        self._last, self._lasted = step, lasts
        # Of the first steps it isn't known what is usual.
        return step > 1 and lasts > USUAL * before and lasts >= SHARE * (end - found[-1].end)


def pieces(border: int, stretches: List[_Stretch]) -> List[Piece]:
    """All of the time from `border` to the end of the last stretch, by kind.

    What precedes a checkpoint is its preparation. A checkpoint inside an evaluation is a checkpoint.
    """
    found: List[Piece] = []
    ends = sorted({time for one in stretches for time in (one.begin, one.end)} | {border})
    for begin, end in zip(ends, ends[1:]):  # noqa: B905, RUF007 - Python 3.8
        kinds = {one.kind for one in stretches if one.begin <= begin and end <= one.end}
        kind = next((one for one in KINDS if one in kinds), OTHER)
        if found and found[-1][0] == OTHER and (kind is CHECKPOINT or _length(found[-1]) < GAP_NS):
            begin = found.pop()[1]
        if found and found[-1][0] == kind:
            begin = found.pop()[1]
        found.append((kind, begin, end))
    return found


def _length(piece: Piece) -> int:
    return piece[2] - piece[1]
