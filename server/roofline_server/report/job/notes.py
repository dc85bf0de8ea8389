"""Notes of a report: what was missed, what is blurred, what is absent and why."""

from __future__ import annotations

import time

import numpy as np
from roofline.answers.report import Report

from ...correlate.steps import OWN
from ...records import EventKind, Incarnation, Table, rows, take
from ...sentences import notes as texts
from ...sentences.rooflines import no_ceilings_of_host
from ...store.view import JobView
from ..evidence.tables import by_rank, where
from ..ranks.exits import SLURM
from ..ranks.members import host_of, name_of, nodes_of, on_clock
from .slowed import slowed_notes

ALIGNMENT_LIMIT = 0.05  # of the median step time
TAG = "tag."  # how the names of facts begin that are tags
CLAIMED = "rank.claimed"  # fact: the processes of a node that say they are this rank
TOGETHER_NS = 5_000_000_000  # an agent may see the end of a process so late
IDENTITY = "identity="  # fact of a node: the server's notice that another agent has the same identity
TRACE = "trace.state"  # fact: what became of the last trace of a rank's steps
ORIGIN = "steps.from"  # fact: how steps were seen where it was not by a hook


def write_notes(view: JobView, report: Report) -> list[str]:
    notes = []
    for gap in report.gaps:
        clock = time.strftime("%H:%M:%S", time.localtime(gap.begin_ns / 1e9))
        notes.append(texts.gap(gap.host, (gap.end_ns - gap.begin_ns) / 1e9, clock, gap.reason))
    notes += _claim_notes(view) + _restart_notes(view) + _missing_step_notes(view) + _alignment_notes(report)
    notes += [note for _, note in tag_notes(view)]
    notes += [*view.machine_notes, *_caveat_notes(view)]

    ranks_of: dict[str, list[str]] = {}  # by how their steps were seen
    for number, facts in view.facts.items():
        if facts.get(ORIGIN):
            ranks_of.setdefault(facts[ORIGIN], []).append(name_of(view, number))
    notes += [texts.steps_from(ranks, origin) for origin, ranks in ranks_of.items()]

    traced: dict[str, list[str]] = {}  # ranks by what became of their trace
    for number, facts in view.facts.items():
        if facts.get(TRACE):
            traced.setdefault(facts[TRACE], []).append(name_of(view, number))
    notes += [texts.trace_of(ranks, state) for state, ranks in traced.items()]

    notes += _event_notes(view.events)
    of_nodes = {node: _events_during_job(view, node, table) for node, table in view.watched.items()}
    notes += slowed_notes(view, of_nodes)
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
        if len(values) > 1 and tag in view.tags and not tag.startswith(SLURM)
    ]


def _claim_notes(view: JobView) -> list[str]:
    """Ranks that several processes say they are, at the same time."""
    notes = [
        texts.claimed_here(name_of(view, number), host_of(view, number), facts[CLAIMED])
        for number, facts in view.facts.items()
        if CLAIMED in facts
    ]
    by_rank: dict[int, list[tuple[int, int, Incarnation]]] = {}
    for who in view.process_lifetimes:
        if who.pid and who.node not in view.recordings:
            by_rank.setdefault(who.rank, []).append((*on_clock(view, who), who))
    for number, lives in sorted(by_rank.items()):
        mixed = {
            who
            for begin, end, one in lives
            for other_begin, other_end, other in lives
            if one.node != other.node and min(end, other_end) - max(begin, other_begin) > TOGETHER_NS
            for who in (one, other)
        }
        if mixed:
            names = [f"pid {who.pid} on {view.machines[who.node].host}" for who in sorted(mixed)]
            notes.append(texts.claimed_on_nodes(name_of(view, number), names))
    return notes


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


def _missing_step_notes(view: JobView) -> list[str]:
    every = view.steps.get("steps", {})
    if not rows(every):
        return []
    own = where({name: every[name] for name in ("rank", "step", "window")}, "window", OWN)
    notes = []
    for number, tables in by_rank({"steps": own}).items():
        steps = np.sort(tables["steps"]["step"])
        distinct = 1 + np.count_nonzero(np.diff(steps))
        missing = int(steps[-1] - steps[0] + 1 - distinct)
        if missing:
            notes.append(texts.missing_steps(name_of(view, number), missing, steps[0], steps[-1]))
    return notes


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
    if not rows(events):
        return []
    notes = []
    for kind in (EventKind.LOST, EventKind.REFUSED, EventKind.SOURCE_FAILED):
        some = where(events, "kind", kind)
        totals: dict[str, int] = {}
        for text, count in zip(some["text"], some["count"], strict=True):
            totals[str(text)] = totals.get(str(text), 0) + int(count)
        for text, count in totals.items():
            if kind == EventKind.LOST:
                notes.append(texts.lost(text, count))
            elif kind == EventKind.REFUSED:
                notes.append(texts.refused(text, count))
            else:
                notes.append(texts.source_failed(text))
    return notes


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
