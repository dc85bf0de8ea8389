"""The report in words: what was missed, what is blurred, what is absent and why."""

from __future__ import annotations

import time

import numpy as np
from roofline.answers.report import Report

from ...correlate.steps import OWN
from ...records import EventKind, Table, rows, take
from ...store.view import JobView
from ..evidence.ranks import by_rank, where

ALIGNMENT_LIMIT = 0.05  # of the median step time
TAG = "tag."  # how the names of facts begin that are tags


def write_notes(view: JobView, report: Report) -> list[str]:
    notes = _gap_notes(report) + _restart_notes(view) + _hole_notes(view) + _alignment_notes(report)
    notes += tag_notes(view) + list(view.machine_notes) + _origin_notes(view)
    notes += _event_notes(view.events)
    for node, table in view.watched.items():
        notes += _event_notes(_while_there(view, node, table))
    for roof in report.roofs:
        if not roof.ceilings:
            notes.append(
                f"{roof.host} has no ceilings: run `roofline-agent calibrate` there while it is idle"
            )
    return list(dict.fromkeys(notes)) + _absent_notes(report)


def _gap_notes(report: Report) -> list[str]:
    notes = []
    for gap in report.gaps:
        clock = time.strftime("%H:%M:%S", time.localtime(gap.begin_ns / 1e9))
        seconds = (gap.end_ns - gap.begin_ns) / 1e9
        notes.append(f"gap: {gap.host} was not watched for {seconds:.1f} s from {clock}: {gap.reason}")
    return notes


def _restart_notes(view: JobView) -> list[str]:
    """Ranks that were several processes, one after another."""
    processes: dict[int, int] = {}
    for who in view.process_lifetimes:
        if who.pid:
            processes[who.rank] = processes.get(who.rank, 0) + 1
    restarts: dict[int, list[str]] = {}
    for number in sorted(processes, key=lambda n: view.ranks[n]):
        key = view.ranks[number]
        restarts.setdefault(processes[number] - 1, []).append(f"{key.role}:{key.index}")
    times = {count: "once" if count == 1 else f"{count} times" for count in restarts}
    return [
        f"{', '.join(names)}: started again {times[count]}; the numbers are of all processes"
        for count, names in sorted(restarts.items())
        if count
    ]


def tag_notes(view: JobView) -> list[str]:
    """Tags of which ranks say different values."""
    said: dict[str, dict[str, list[str]]] = {}
    for number, facts in sorted(view.facts.items(), key=lambda item: view.ranks[item[0]]):
        for name, value in facts.items():
            if name.startswith(TAG):
                key = view.ranks[number]
                said.setdefault(name.removeprefix(TAG), {}).setdefault(value, []).append(
                    f"{key.role}:{key.index}"
                )
    return [
        f"tag {name} differs: "
        + ", ".join(f"{value!r} ({', '.join(ranks)})" for value, ranks in values.items())
        + f"; {view.tags[name]!r}, said last, holds"
        for name, values in sorted(said.items())
        if len(values) > 1 and name in view.tags
    ]


def _origin_notes(view: JobView) -> list[str]:
    """How steps were seen where it was not by a hook."""
    said: dict[str, list[str]] = {}
    for number, facts in view.facts.items():
        if facts.get("steps.from"):
            key = view.ranks[number]
            said.setdefault(facts["steps.from"], []).append(f"{key.role}:{key.index}")
    return [f"steps of {', '.join(names)} are from {origin}" for origin, names in said.items()]


def _hole_notes(view: JobView) -> list[str]:
    every = view.steps.get("steps", {})
    own = where({name: every[name] for name in ("rank", "step", "window")} if every else {}, "window", OWN)
    notes = []
    for number, tables in by_rank({"steps": own}).items():
        steps = np.sort(tables["steps"]["step"])
        distinct = 1 + np.count_nonzero(np.diff(steps))
        missing = int(steps[-1] - steps[0] + 1 - distinct)
        if missing:
            key = view.ranks[number]
            notes.append(
                f"{key.role}:{key.index}: {missing} steps between {steps[0]} and {steps[-1]} were not seen"
            )
    return notes


def _alignment_notes(report: Report) -> list[str]:
    medians = [r.summary.values["step_time_median"].value for r in report.ranks]
    shortest = min((m for m in medians if m), default=None)
    notes = []
    for host, error in report.alignment:
        if error.value is not None and shortest and error.value > ALIGNMENT_LIMIT * shortest:
            notes.append(
                f"clock of {host} is known to {error.value * 1e3:.2f} ms only, "
                f"{error.value / shortest:.0%} of a median step: steps across nodes are blurred"
            )
    return notes


def _while_there(view: JobView, node: int, events: Table) -> Table:
    """Events of a node, in node time, from the time the job was there."""
    lives = [life for who, life in view.process_lifetimes.items() if who.node == node]
    if not rows(events) or not lives:
        return {}
    first, last = min(life.first_ns for life in lives), max(life.last_ns for life in lives)
    return take(events, (events["end_ns"] >= first) & (events["time_ns"] <= last))


def _event_notes(events: Table) -> list[str]:
    if not rows(events):
        return []
    totals: dict[tuple[int, str], int] = {}
    for kind in (EventKind.LOST, EventKind.REFUSED, EventKind.SOURCE_FAILED):
        for text, count in zip(
            *(where(events, "kind", kind).get(c, ()) for c in ("text", "count")), strict=True
        ):
            totals[int(kind), str(text)] = totals.get((int(kind), str(text)), 0) + int(count)
    words = {EventKind.LOST: "lost: {1} {0}", EventKind.REFUSED: "refused: {0} ({1} times)"}
    return [
        words.get(EventKind(kind), "source failed: {0}").format(text, n) for (kind, text), n in totals.items()
    ]


def _absent_notes(report: Report) -> list[str]:
    """Why values are absent, one line per reason, with who lacks what."""
    who: dict[str, dict[str, list[str]]] = {}
    for rank in report.ranks:
        for name, value in rank.summary.values.items():
            if value.value is None and value.reason:
                who.setdefault(value.reason, {}).setdefault(rank.rank, []).append(name)
    notes = []
    for reason, lacking in who.items():
        names = dict.fromkeys(name for names in lacking.values() for name in names)
        notes.append(f"absent for {', '.join(lacking)}: {', '.join(names)}: {reason}")
    return notes
