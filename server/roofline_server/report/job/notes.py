"""Notes of a report: what was missed, what is blurred, what is absent and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.report import Gap, Report
from roofline.facts import CLAIMED, LEFT_OUT, STEPS_FROM, TRACE_STATE
from roofline.texts import utc

from ...correlate.steps import OWN
from ...model.evidence import NS
from ...records import EventKind, Incarnation, Table, rows, take
from ...sentences import notes as texts
from ...sentences.rooflines import no_ceilings_of_host
from ...store.view import JobView, once
from ..ceilings.nodes import machine_notes
from ..evidence.held_clocks import held_clocks
from ..evidence.tables import by_rank, where
from ..ranks.exits import OF_RUNS, TAG
from ..ranks.members import host_of, name_of, nodes_of, on_clock
from ..ranks.unseen import unseen_ranks
from .slowed import slowed_notes

ALIGNMENT_LIMIT = 0.05  # of the median step time
TOGETHER_NS = 5_000_000_000  # an agent may see the end of a process so late
IDENTITY = "identity="  # fact of a node: the server's notice that another agent has the same identity
ENOUGH_TIME = 0.5  # of what steps that are missing would usually take


def losses(view: JobView, gaps: Sequence[Gap]) -> list[str]:
    """In short, what of the job is missing or mixed up: nobody saw it, or it was dropped on its way."""
    notes = [texts.ranks_unseen(one.missing, one.world, one.role, one.ranks) for one in unseen_ranks(view)]
    claimed = [name_of(view, number) for number, facts in view.facts.items() if CLAIMED in facts]
    claimed += [name_of(view, number) for number in _mixed_up(view)]
    if claimed:
        notes.append(texts.claimed(list(dict.fromkeys(claimed))))
    if silent := [gap for gap in gaps if gap.reason == texts.SILENT]:
        hosts = list(dict.fromkeys(gap.host for gap in silent))
        notes.append(texts.silent(hosts, max(gap.end_ns - gap.begin_ns for gap in silent) / NS))
    if holes := [gap for gap in gaps if gap.reason != texts.SILENT]:
        hosts = list(dict.fromkeys(gap.host for gap in holes))
        notes.append(texts.unwatched(hosts, sum(gap.end_ns - gap.begin_ns for gap in holes) / NS, len(holes)))
    if missing := _missing_steps(view):
        ranks = [name_of(view, number) for number in missing]
        notes.append(texts.unseen(ranks, sum(one.steps for one in missing.values())))
    left_out = {
        name_of(view, number): int(facts[LEFT_OUT])
        for number, facts in view.facts.items()
        if facts.get(LEFT_OUT, "").isdecimal()
    }
    if left_out:
        notes.append(texts.left_out(list(left_out), sum(left_out.values())))
    events = [view.events, *(_events_during_job(view, node, table) for node, table in view.watched.items())]
    for kind, words in ((EventKind.LOST, texts.lost), (EventKind.REFUSED, texts.refused)):
        totals: dict[str, int] = {}
        for table in events:
            for text, count in _counted(table, kind).items():
                totals[text] = totals.get(text, 0) + count
        notes += [words(text, count) for text, count in totals.items()]
    return notes


def write_notes(view: JobView, report: Report) -> list[str]:
    notes = []
    for gap in report.gaps:
        begin = utc(gap.begin_ns)
        notes.append(texts.gap(gap.host, (gap.end_ns - gap.begin_ns) / 1e9, begin, gap.reason))
    notes += _claim_notes(view) + _restart_notes(view) + _missing_step_notes(view) + _alignment_notes(report)
    notes += [note for _, note in tag_notes(view)]
    notes += [*machine_notes(view), *_caveat_notes(view)]

    ranks_of: dict[str, list[str]] = {}  # by how their steps were seen
    for number, facts in view.facts.items():
        if facts.get(STEPS_FROM):
            ranks_of.setdefault(facts[STEPS_FROM], []).append(name_of(view, number))
    notes += [texts.steps_from(ranks, origin) for origin, ranks in ranks_of.items()]

    traced: dict[str, list[str]] = {}  # ranks by what became of their trace
    for number, facts in view.facts.items():
        if facts.get(TRACE_STATE):
            traced.setdefault(facts[TRACE_STATE], []).append(name_of(view, number))
    notes += [texts.trace_of(ranks, state) for state, ranks in traced.items()]

    notes += _event_notes(view.events)
    of_nodes = {node: _events_during_job(view, node, table) for node, table in view.watched.items()}
    notes += slowed_notes(view, of_nodes)
    notes += _held_clock_notes(view)
    for during in of_nodes.values():
        notes += _event_notes(during) + _identity_notes(during)
    notes += [no_ceilings_of_host(roof.host) for roof in report.roofs if not roof.ceilings]
    return list(dict.fromkeys(notes)) + _absent_notes(report)


def tag_notes(view: JobView) -> list[tuple[str, str]]:
    """(tag, note) of tags of which ranks have different values."""
    ranks_of: dict[str, dict[str, list[str]]] = {}
    for number, facts in sorted(view.facts.items(), key=lambda item: view.ranks[item[0]]):
        for name, value in facts.items():
            if name.startswith(TAG):
                values = ranks_of.setdefault(name.removeprefix(TAG), {})
                values.setdefault(value, []).append(name_of(view, number))
    return [
        (tag, texts.tag_differs(tag, values, view.tags[tag]))
        for tag, values in sorted(ranks_of.items())
        if len(values) > 1 and tag in view.tags and not tag.startswith(OF_RUNS)
    ]


def _held_clock_notes(view: JobView) -> list[str]:
    """The GPU that was held down most, and how many others were."""
    held = held_clocks(view)
    if not held:
        return []
    worst = max(held, key=lambda one: max(one.shares.values()))
    return [texts.held_clocks(texts.held_clock(*worst), len(held) - 1)]


def _claim_notes(view: JobView) -> list[str]:
    """Ranks that several processes say they are, at the same time."""
    notes = [
        texts.claimed_here(name_of(view, number), host_of(view, number), facts[CLAIMED])
        for number, facts in view.facts.items()
        if CLAIMED in facts
    ]
    for number, mixed in _mixed_up(view).items():
        names = [f"pid {who.pid} on {view.machines[who.node].host}" for who in mixed]
        notes.append(texts.claimed_on_nodes(name_of(view, number), names))
    return notes


@once
def _mixed_up(view: JobView) -> dict[int, list[Incarnation]]:
    """rank -> the processes of different nodes that were this rank at the same time."""
    lives: dict[int, list[tuple[int, int, Incarnation]]] = {}
    for who in view.process_lifetimes:
        if who.pid and who.node not in view.recordings:
            lives.setdefault(who.rank, []).append((*on_clock(view, who), who))
    found = {}
    for number, some in sorted(lives.items()):
        mixed = {
            who
            for begin, end, one in some
            for other_begin, other_end, other in some
            if one.node != other.node and min(end, other_end) - max(begin, other_begin) > TOGETHER_NS
            for who in (one, other)
        }
        if mixed:
            found[number] = sorted(mixed)
    return found


def _caveat_notes(view: JobView) -> list[str]:
    """Sources of which `roofline-agent validate` found values off, on nodes of the job."""
    machines = [view.machines[node] for node in sorted(nodes_of(view))]
    return [texts.caveat(m.host, one.name, one.caveat) for m in machines for one in m.sources if one.caveat]


def _restart_notes(view: JobView) -> list[str]:
    """Ranks that were several processes, one after another."""
    processes: dict[int, int] = {}
    for who in view.process_lifetimes:
        if who.pid:
            processes[who.rank] = processes.get(who.rank, 0) + 1
    restarted: dict[int, list[str]] = {}
    for number in sorted(processes, key=lambda n: view.ranks[n]):
        if processes[number] > 1:
            restarted.setdefault(processes[number] - 1, []).append(name_of(view, number))
    return [texts.restarted(ranks, times) for times, ranks in sorted(restarted.items())]


class _MissingSteps(NamedTuple):
    """Steps between the first and the last of a rank that nobody saw."""

    steps: int
    first: int
    last: int


@once
def _missing_steps(view: JobView) -> dict[int, _MissingSteps]:
    """By rank; of those that lack none nothing."""
    every = view.steps.get("steps", {})
    if not rows(every):
        return {}
    own = where(
        {name: every[name] for name in ("rank", "step", "window", "begin_ns", "end_ns")}, "window", OWN
    )
    found = {}
    for number, tables in by_rank({"steps": own}).items():
        steps = tables["steps"]["step"]
        if not (np.diff(steps) == 1).all():
            missing = _missing_of(view, number, tables["steps"])
            if missing:
                found[number] = _MissingSteps(missing, int(steps.min()), int(steps.max()))
    return found


def _missing_of(view: JobView, number: int, steps: Table) -> int:
    """How many steps nobody saw. None are missing where all numbers are as far apart, where there was no time
    for them (a training numbers its steps as it likes), and while the rank was not there."""
    ordered = take(steps, np.argsort(steps["step"], kind="stable"))
    follows = np.diff(ordered["step"])
    if not len(follows) or (follows == follows[0]).all():
        return 0
    usual = float(np.median(ordered["end_ns"] - ordered["begin_ns"]))
    holes = np.flatnonzero(follows > 1)
    before, behind = ordered["end_ns"][holes], ordered["end_ns"][holes + 1]
    there = behind - before >= (1 + ENOUGH_TIME * (follows[holes] - 1)) * usual
    for begin, _ in _lives(view, number)[1:]:
        there &= ~((before < begin) & (begin < behind))
    return int((follows[holes][there] - 1).sum())


def _lives(view: JobView, number: int) -> list[tuple[int, int]]:
    """Begin and end of the processes that were this rank, in order, server time."""
    return sorted(on_clock(view, who) for who in view.process_lifetimes if who.rank == number and who.pid)


def _missing_step_notes(view: JobView) -> list[str]:
    return [texts.missing_steps(name_of(view, number), *one) for number, one in _missing_steps(view).items()]


def _alignment_notes(report: Report) -> list[str]:
    medians = [r.summary.values["step_time_median"].value for r in report.ranks]
    shortest = min((m for m in medians if m), default=None)
    if not shortest:
        return []
    return [
        texts.clock_error(host, error.value, shortest)
        for host, error in report.alignment
        if error.value is not None and error.value > ALIGNMENT_LIMIT * shortest
    ]


def _events_during_job(view: JobView, node: int, events: Table) -> Table:
    """Events of a node, in node time, from the time the job was there."""
    processes = [life for who, life in view.process_lifetimes.items() if who.node == node]
    if not rows(events) or not processes:
        return {}
    first, last = min(life.first_ns for life in processes), max(life.last_ns for life in processes)
    return take(events, (events["end_ns"] >= first) & (events["time_ns"] <= last))


def _event_notes(events: Table) -> list[str]:
    notes = [texts.lost(text, count) for text, count in _counted(events, EventKind.LOST).items()]
    notes += [texts.refused(text, count) for text, count in _counted(events, EventKind.REFUSED).items()]
    return notes + [texts.source_failed(text) for text in _counted(events, EventKind.SOURCE_FAILED)]


def _counted(events: Table, kind: EventKind) -> dict[str, int]:
    """text -> how often, of events of this kind."""
    some = where(events, "kind", kind)
    totals: dict[str, int] = {}
    for text, count in zip(some["text"], some["count"], strict=True) if rows(some) else ():
        totals[str(text)] = totals.get(str(text), 0) + int(count)
    return totals


def _identity_notes(events: Table) -> list[str]:
    """The notice of the server to an agent that shares its identity with another."""
    facts = where(events, "kind", EventKind.FACT)["text"].tolist() if rows(events) else []
    return [str(text).removeprefix(IDENTITY) for text in facts if str(text).startswith(IDENTITY)]


def _absent_notes(report: Report) -> list[str]:
    """Why values are absent, one line per reason, with the ranks that lack them."""
    without: dict[str, dict[str, list[str]]] = {}  # reason -> rank -> values
    for rank in report.ranks:
        for name, value in rank.summary.values.items():
            if value.value is None and value.reason:
                without.setdefault(value.reason, {}).setdefault(rank.rank, []).append(name)
    notes = []
    for reason, values_of in without.items():
        values = dict.fromkeys(name for names in values_of.values() for name in names)
        notes.append(texts.absent(list(values_of), list(values), reason))
    return notes
