"""Answers to what-if questions: the change, what the models take of the job, and the answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value
from roofline.answers.what_if import Predicted, WhatIf

from ...errors import BadRequest
from ...model.account.synchronous_job import played_columns
from ...model.causes.kinds import MORE_WORK, work_of_each
from ...model.evidence import RankEvidence
from ...model.intervals import OF_A_GAIN, of_changed_run
from ...model.roofline.summary import summarize
from ...model.times import beside, durations
from ...model.what_if import JobChange, Range
from ...sentences import reasons
from ...sentences import verdict as verdict_texts
from ...sentences import what_if as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered, gather
from ..evidence.ranks import NEEDED as NEEDED
from ..evidence.shared_batch import shared_batch
from ..evidence.training import training_ranks
from ..verdict.servers import Served, served
from ..verdict.signals import signals_of
from .fixing import fix
from .prediction import Prediction, unknown
from .servers import with_servers
from .synchronous import synchronous

MOST = 1e15  # bytes a second
MOST_RANKS = 100_000  # and parameter servers
LEAST_LEFT = 0.1  # of a predicted step: where ranges are wide they end there


class WhatIfQuery(NamedTuple):
    """What should be different; None: as it was. batch: examples of a rank and step; bandwidth: byte/s."""

    ranks: int | None = None
    servers: int | None = None
    batch: float | None = None
    bandwidth: float | None = None
    bandwidth_times: float | None = None
    fix: str = ""


class _Known(NamedTuple):
    """What is known of the job as it was."""

    step: float | None
    ranks: int
    servers: int
    batch: float | None
    rate: Value
    beside: float = 0.0  # seconds between two steps in a row, which are in none


def what_if(view: JobView, asked: WhatIfQuery) -> WhatIf:
    """Raises BadRequest for a change that cannot be, and UnknownRank."""
    gathered = gather(view)
    serving = served(view, gathered)
    training, left = _played(gathered, serving)
    now = _known(training, serving)
    change, words = _change(asked, now)
    if not now.step:
        prediction = unknown(texts.NO_STEPS)
    elif asked.batch is not None and now.batch is None:
        prediction = unknown(texts.NO_BATCH)
    elif asked.fix:
        prediction = fix(view, gathered, serving, asked.fix, now.step)
    elif serving.servers:
        prediction = with_servers(view, gathered, serving, change, asked.bandwidth)
    elif gathered.mode == "asynchronous":
        prediction = unknown(texts.INDEPENDENT)
    else:
        prediction = synchronous(view, gathered, change, asked.bandwidth)
    if prediction.steps is not None and now.step and not asked.fix:
        prediction = prediction._replace(steps=_of_another_run(prediction.steps, now, change))
    if asked.fix and prediction.steps is not None and _does_more(view, gathered, training, asked.fix):
        prediction = prediction._replace(notes=[*prediction.notes, texts.NO_RATE], no_rate=reasons.LESS_WORK)
    if left:
        prediction = prediction._replace(notes=[*prediction.notes, texts.left_out(left)])
    if prediction.steps is not None and now.rate.value is not None:
        shares = _shared_batch_notes(view, gathered, changes_ranks=asked.ranks is not None)
        prediction = prediction._replace(notes=[*prediction.notes, *shares])
    return _answer(view.job, gathered.mode, words, now, change, prediction)


def _shared_batch_notes(view: JobView, gathered: Gathered, changes_ranks: bool) -> list[str]:
    """Rates are as the report has them, which counts a batch once for each rank that works on it."""
    shared = shared_batch(view, training_ranks(gathered.evidence))
    if shared.ranks == 1:
        return []
    more = [texts.whole_groups(shared.ranks)] if changes_ranks else []
    return [verdict_texts.shared_batch(*shared), *more]


def _does_more(view: JobView, gathered: Gathered, training: Sequence[RankEvidence], fixed: str) -> bool:
    """Whether it is a rank with more work than the others: like these, it would do less."""
    played = {rank.key for rank in training}
    signals = [one for one in signals_of(view, gathered).values() if one.rank in played]
    more = work_of_each(signals) > 1 + MORE_WORK
    return any(one.rank == fixed and does for one, does in zip(signals, more.tolist(), strict=True))


def _of_another_run(steps: Range, now: _Known, change: JobChange) -> Range:
    """The range widened, as the run with the change is another one. now.step: known."""
    step = now.step or 0.0
    low, high = of_changed_run(*steps, step)
    least = LEAST_LEFT * steps.likely
    if change.batch < 1 and change.ranks in (None, now.ranks):
        least = max(least, (1 - OF_A_GAIN) * change.batch * step)  # an example does not become much cheaper
    return Range(steps.likely, min(steps.likely, max(low, least)), high)


def _played(gathered: Gathered, serving: Served) -> tuple[list[RankEvidence], list[str]]:
    """The ranks that train, and where they wait for each other the names of those whose steps are not played:
    these are not among them."""
    training, barriers = list(training_ranks(gathered.evidence).values()), gathered.barriers
    if serving.servers or not len(barriers.grid.at):
        return training, []
    names = {gathered.evidence[barriers.ranks[column]].key for column in played_columns(barriers.grid)}
    played = [rank for rank in training if rank.key in names]
    return played or training, [rank.key for rank in training if played and rank.key not in names]


def _known(training: list[RankEvidence], serving: Served) -> _Known:
    steps = np.concatenate([durations(rank.steps) for rank in training]) if training else np.zeros(0)
    step = float(steps.mean()) if len(steps) else None
    if serving.workers:
        step = serving.cycle
    values = summarize(training, [], Scope.ROLE).values if training else {}
    known = [rank.steps.examples[rank.steps.examples > 0] for rank in training]
    examples = np.concatenate(known) if known else np.zeros(0)
    return _Known(
        step,
        len(training),
        len(serving.servers),
        float(examples.mean()) if len(examples) else None,
        values.get("examples_per_second", Value(None, "examples/s", reason=reasons.NO_STEPS_SEEN)),
        0.0 if serving.workers else max((beside(rank.steps) for rank in training), default=0.0),
    )


def _check(asked: WhatIfQuery, now: _Known) -> None:
    """Raises BadRequest for a change that cannot be."""
    given = {name: value for name, value in asked._asdict().items() if value not in (None, "")}
    if not given:
        raise BadRequest("what shall be different? ranks, servers, batch, bandwidth, or what to fix")
    if asked.fix and len(given) > 1:
        raise BadRequest("what to fix is asked for alone, not with other changes")
    if asked.servers is not None and not now.servers:
        raise BadRequest("the job has no parameter servers")
    if asked.bandwidth is not None and asked.bandwidth_times is not None:
        raise BadRequest("bandwidth is given twice")
    for name, value in given.items():
        most = MOST_RANKS if name in ("ranks", "servers") else MOST
        if not isinstance(value, str) and not 0 < value <= most:
            raise BadRequest(f"{name} = {value:g}: must be more than 0, and at most {most:g}")


def _change(asked: WhatIfQuery, now: _Known) -> tuple[JobChange, str]:
    """The change and its words. Raises BadRequest."""
    _check(asked, now)
    words = []
    if asked.ranks is not None:
        words.append(texts.instead(asked.ranks, now.ranks, "workers" if now.servers else "ranks"))
    if asked.servers is not None:
        words.append(texts.instead(asked.servers, now.servers, "parameter servers"))
    if asked.batch is not None:
        words.append(texts.instead(asked.batch, now.batch or 0.0, "examples a rank and step"))
    if asked.bandwidth_times is not None:
        words.append(texts.of_bandwidth(asked.bandwidth_times))
    if asked.bandwidth is not None:
        words.append(texts.links_of(asked.bandwidth))
    if asked.fix:
        words.append(texts.fixed(asked.fix))
    batch = asked.batch / now.batch if asked.batch is not None and now.batch else 1.0
    return JobChange(asked.ranks, asked.servers, batch, asked.bandwidth_times or 1.0), " and ".join(words)


def _answer(job: str, mode: str, words: str, now: _Known, change: JobChange, found: Prediction) -> WhatIf:
    if found.whole is not None:
        now = now._replace(step=found.whole, beside=0.0)
    step = Value(now.step, "s", Provenance.MEASURED, Scope.PROCESS)
    if found.steps is None or not now.step:
        why = found.notes[0]
        nothing = Value(None, "s", reason=why)
        return WhatIf(
            job,
            words,
            mode,
            texts.cannot_tell(why),
            Predicted(step if now.step else nothing, nothing, None, None),
            Predicted(now.rate, Value(None, "examples/s", reason=why), None, None),
            found.basis,
            found.notes[1:],
        )
    likely, low, high = found.steps
    then = Value(likely, "s", Provenance.ESTIMATED, Scope.PROCESS)
    rate = Predicted(now.rate, Value(None, "examples/s", reason=found.no_rate or now.rate.reason), None, None)
    sentence = texts.answer_of_step(words, likely, low, high, now.step)
    if now.rate.value is not None and not found.no_rate:
        # As much faster as there are more ranks with more examples in shorter steps.
        work = (change.ranks or now.ranks) / max(1, now.ranks) * change.batch
        examples = work * (now.step + now.beside) * now.rate.value
        most_likely, least, most = (examples / (seconds + now.beside) for seconds in (likely, high, low))
        faster = Value(most_likely, "examples/s", Provenance.ESTIMATED, Scope.ROLE)
        rate = Predicted(now.rate, faster, least, most)
        sentence = texts.answer(words, most_likely, least, most, now.rate.value)
    return WhatIf(
        job, words, mode, sentence, Predicted(step, then, low, high), rate, found.basis, found.notes
    )
