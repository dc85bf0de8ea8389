"""MFU, HFU, roofline utilisation, and where the rest of a step goes: of each rank that trains, and of all."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.efficiency import Efficiency, Utilisation
from roofline.answers.model_flops import ModelFlops

from ...model.efficiency import SAME
from ...sentences import efficiency as texts
from ...store.view import JobView
from ..about import about
from ..ceilings.contention import contention
from ..evidence.gathering import check_seen, gather
from ..evidence.replays import notes as replay_notes
from ..evidence.sampled import notes as sample_notes
from ..evidence.steady import left_out_notes
from ..questions import Subject
from ..ranks.members import chosen
from ..roofline import rooflines
from ..roofline.groups import groups_of, summarized
from ..verdict.accounts import accounts_of
from .model_flops import checked
from .rank_use import RankUse, use_of
from .utilisation import losses, measured, of_ranks

NEEDED = rooflines.needed("network", "rank")


def efficiency(view: JobView, subject: Subject, asked: ModelFlops) -> Efficiency:
    """The answer to GetEfficiency. Raises BadRequest for a model, precision or range that cannot be, and
    UnknownRank."""
    asked = checked(asked)
    check_seen(view, subject.steps)
    numbers = chosen(view, subject.ranks)
    gathered = gather(view, subject.steps)
    every, known = gathered.evidence, accounts_of(view, gathered)
    training = [n for n in numbers if n in known.concerned and len(known.accounts[n].duration)]
    sharing = contention(view, every)
    uses = {}
    for number in training:
        (group,) = groups_of(view, {number: every[number]}, every, "rank", summarized)
        between = known.beside.get(number, 0.0)
        uses[number] = use_of(view, number, group, known.accounts[number], asked, sharing, between)
    # What is known of some ranks is not mixed with the little that is known of others.
    best = [number for number in training if uses[number].is_known] or training
    roles = groups_of(view, {number: every[number] for number in best}, every, "role", summarized)
    whole = of_ranks(texts.ranks(len(best)), [uses[n] for n in best], roles, asked)
    left = [every[number].key for number in training if number not in best]
    return Efficiency(
        about=about([view]),
        sentence=_sentence(whole),
        whole=whole,
        ranks=[
            of_ranks(use.group.who.label, [use], [use.group], asked)._replace(
                rank=use.group.who.rank, host=use.group.who.host
            )
            for use in uses.values()
        ],
        notes=[
            *_exceeding([uses[number] for number in best]),
            *_notes([uses[number] for number in best], whole),
            *([texts.left_out(left, len(training))] if left else []),
            *replay_notes(view, every),
            *sample_notes([every[number] for number in best]),
            *left_out_notes(view, subject.steps),
        ],
    )


def _sentence(whole: Utilisation) -> str:
    mfu, theory = measured(whole, "mfu"), measured(whole, "mfu.theoretical")
    found = mfu if mfu.value is not None else theory
    if found.value is None:
        return texts.unknown(mfu.reason)
    return texts.answer(found.value, whole.precision, mfu.value is None, losses(whole))


def _exceeding(uses: Sequence[RankUse]) -> list[str]:
    """Of the rank that executed least of what its model is said to have: others may make up for it."""
    known = [
        (use.model.value, use.executed.value, use.group.who.label)
        for use in uses
        if use.exceeds and use.model.value and use.executed.value
    ]
    if not known:
        return []
    model, executed, rank = max(known, key=lambda one: one[0] / one[1])
    note = texts.exceeds(model, executed)
    return [note if len(uses) == 1 else f"{rank}: {note}"]


def _notes(uses: Sequence[RankUse], whole: Utilisation) -> list[str]:
    notes = []
    mfu = measured(whole, "mfu").value
    if mfu is not None and mfu > 1:
        notes.append(texts.above_peak(mfu))
    beyond = max((use.beyond / use.steps.seconds for use in uses if use.steps.seconds > 0), default=0.0)
    if beyond > SAME:
        notes.append(texts.beyond(beyond))
    if len({use.peaks.precision for use in uses} - {""}) > 1:
        notes.append(texts.OTHER_PRECISIONS)
    unpeaked = sorted({one for use in uses for one in use.unpeaked})
    if unpeaked:
        notes.append(texts.no_peak_of(unpeaked))
    if any(use.model.reason == texts.SAME_AS_EXECUTED for use in uses):
        notes.append(texts.RECOMPUTE_SEEN)
    return notes
