"""Puts a job's step deltas, events and machines together into one report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .correlate import windows as step_windows
from .correlate.kernels import merge
from .correlate.steps import OWN, union
from .errors import BadRequest
from .model import roofline
from .model.summary import (
    CounterEvidence,
    KernelEvidence,
    RankEvidence,
    StepEvidence,
    Summary,
    dominant_precision,
    summarize,
)
from .model.values import Provenance, Scope, Value
from .records import (
    ABSENT,
    Ceiling,
    EventKind,
    Incarnation,
    Ints,
    MetricKind,
    SourceStatus,
    Table,
    rows,
    take,
)
from .store.catalog import Life
from .store.store import JobView

ROLE_ORDER = ("chief", "ps", "worker", "horovod", "ddp", "evaluator")
RUNNING_NS = 15_000_000_000
ALIGNMENT_LIMIT = 0.05  # of the median step time
GAP_NS = 1_000_000


class RankReport(NamedTuple):
    rank: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    host: str
    pid: int
    name: str
    windows: str
    summary: Summary


class RoleReport(NamedTuple):
    role: str
    ranks: int
    hosts: list[str]
    summary: Summary


class RoofReport(NamedTuple):
    host: str
    note: str
    lines: list[roofline.Line]
    ceilings: list[Ceiling]


class Point(NamedTuple):
    label: str
    role: str
    host: str
    intensity: float
    flops: float
    provenance: Provenance
    level: str


class Gap(NamedTuple):
    """A stretch nobody watched, server time."""

    host: str
    rank: str
    begin_ns: int
    end_ns: int
    reason: str


class Report(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    mode: str
    running: bool
    first_step: int | None
    last_step: int | None
    roles: list[RoleReport]
    ranks: list[RankReport]
    roofs: list[RoofReport]
    points: list[Point]
    alignment: list[tuple[str, Value]]
    gaps: list[Gap]
    notes: list[str]
    sources: list[tuple[str, list[SourceStatus]]]


class JobSummary(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    roles: dict[str, int]
    hosts: list[str]
    running: bool


class Steps(NamedTuple):
    """Which steps a question is about; None: no bound."""

    first: int | None = None
    last: int | None = None


def build(view: JobView, steps: Steps = Steps(), now_ns: int | None = None) -> Report:
    """The report of a job. Raises BadRequest when the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")
    tables = {name: _within(table, steps) for name, table in view.steps.items()}
    own = _where(tables.get("steps", {}), "window", OWN)
    mode = "" if not rows(own) else "synchronous" if step_windows.synchronous(own) else "asynchronous"
    if mode == "synchronous":
        tables = {name: _unite(table) for name, table in tables.items()}
    evidence = {number: _evidence(view, number, tables, mode) for number in view.ranks}
    roofs = _roofs(view, evidence)
    ranks = _rank_reports(view, evidence, roofs, mode)
    roles = _role_reports(evidence, roofs)
    begin, end = _extent(view)
    gaps = _gaps(view, begin, end)
    alignment = _alignment(view)
    report = Report(
        job=view.job,
        begin_ns=begin,
        end_ns=end,
        mode=mode,
        running=is_running(view, now_ns or time.time_ns()),
        first_step=steps.first,
        last_step=steps.last,
        roles=roles,
        ranks=ranks,
        roofs=_roof_reports(view, roofs),
        points=_points(ranks),
        alignment=alignment,
        gaps=gaps,
        notes=[],
        sources=[(view.machines[n].host, list(view.machines[n].sources)) for n in sorted(_nodes(view))],
    )
    return report._replace(notes=_notes(view, report))


# -- which rows -------------------------------------------------------------------------------------------------


def _within(table: Table, steps: Steps) -> Table:
    if not rows(table):
        return table
    wanted = np.ones(rows(table), bool)
    if steps.first is not None:
        wanted &= table["step"] >= steps.first
    if steps.last is not None:
        wanted &= table["step"] <= steps.last
    return table if wanted.all() else take(table, wanted)


def _where(table: Table, column: str, wanted: int) -> Table:
    return take(table, table[column] == wanted) if rows(table) else table


def _unite(table: Table) -> Table:
    if not rows(table):
        return table
    served = take(table, table["window"] != OWN)
    if not rows(served):
        return table
    parts = (take(table, table["window"] == OWN), union(served))
    return {name: np.concatenate([part[name] for part in parts]) for name in table}


# -- evidence of one rank ---------------------------------------------------------------------------------------


def _evidence(view: JobView, number: int, tables: Mapping[str, Table], mode: str) -> RankEvidence:
    key = view.ranks[number]
    mine = {name: _where(table, "rank", number) for name, table in tables.items()}
    lifetimes = {name: _where(table, "rank", number) for name, table in view.lifetimes.items()}
    counters = {
        name: mine[name] if rows(mine.get(name, {})) else lifetimes.get(name, {})
        for name in (*mine, *lifetimes)
    }
    steps = _steps(mine.get("steps", {}))
    serving = rows(mine.get("steps", {})) > 0 and bool(np.any(mine["steps"]["window"] != OWN))
    process, tcp = counters.get("steps_process", {}), counters.get("steps_tcp", {})
    return RankEvidence(
        key=f"{key.role}:{key.index}",
        role=key.role,
        host=_host_of(view, number),
        steps=steps,
        kernels=_kernels(mine.get("steps_kernels", {})),
        cpu_ns=_counter(process, "cpu_ns"),
        sent=_counter(tcp, "tcp_sent_bytes"),
        received=_counter(tcp, "tcp_received_bytes"),
        rss_peak=_peak(process, "rss_bytes"),
        samples_per_step=float(np.mean(process["samples"])) if rows(process) and len(steps.step) else None,
        serving=serving,
        reasons=_reasons(view, number),
    )


def _steps(table: Table) -> StepEvidence:
    if not rows(table):
        none: Ints = np.zeros(0, np.int64)
        return StepEvidence(none, none, none, none)
    table = take(table, np.argsort(table["end_ns"], kind="stable"))
    return StepEvidence(
        *(table[name].astype(np.int64) for name in ("step", "begin_ns", "end_ns", "examples"))
    )


def _kernels(table: Table) -> KernelEvidence | None:
    # A rank whose libraries executed nothing has no FLOPs that anybody counted: absent, not zero.
    if not rows(table) or not table["calls"].any():
        return None

    def column(name: str) -> Ints:
        return table[name].astype(np.int64)

    return KernelEvidence(
        flops=column("flops"),
        bytes=column("bytes"),
        duration_ns=column("end_ns") - column("begin_ns"),
        kernel_ns=column("kernel_ns"),
        complete=column("complete") > 0,
        unmodelled=column("unmodelled"),
        flops_f32=column("flops_f32"),
        flops_f64=column("flops_f64"),
    )


def _counter(table: Table, name: str) -> CounterEvidence | None:
    if not rows(table) or f"{name}.begin" not in table:
        return None
    begin, end = table[f"{name}.begin"], table[f"{name}.end"]
    both = ~(np.isnan(begin) | np.isnan(end))  # type: ignore[type-var]
    if not both.any():
        return None
    total = seconds = 0.0
    for start in np.unique(table["start_ns"][both]):
        one = both & (table["start_ns"] == start)
        total += float(end[one].max() - begin[one].min())  # type: ignore[operator]
        seconds += float(table["end_ns"][one].max() - table["begin_ns"][one].min()) / 1e9  # type: ignore[operator]
    mean = float((end[both] - begin[both]).mean())  # type: ignore[operator]
    return CounterEvidence(total, seconds, int(both.sum()), mean)


def _peak(table: Table, name: str) -> float | None:
    if not rows(table) or name not in table or np.isnan(table[name]).all():  # type: ignore[type-var]
        return None
    return float(np.nanmax(table[name]))  # type: ignore[type-var]


def _reasons(view: JobView, number: int) -> dict[str, str]:
    nodes = {who.node for who in view.lives if who.rank == number}
    if not nodes:
        elsewhere = "only its coordinator spoke of it: no agent watches its process"
        return dict.fromkeys(("cpu", "tcp", "flops", "dram"), elsewhere)
    events = _where(view.events, "rank", number)
    wrapped = rows(events) and bool(np.any(events["kind"] == EventKind.KERNELS_COVERED))
    status = {s.name: s for n in nodes for s in view.machines[n].sources}
    reasons = {
        "flops": "its oneDNN and MKL executed nothing"
        if wrapped
        else "not started by `roofline-agent run`: no kernels",
        "dram": "no source on this node reads DRAM counters",
    }
    perf = status.get("perf")
    if perf is not None and not perf.works:
        reasons["flops"] += f"; {perf.reason}"
        reasons["dram"] = perf.reason
    for kind, source in (("cpu", "process"), ("tcp", "tcp")):
        state = status.get(source)
        if state is None:
            reasons[kind] = f"source {source} is not configured"
        elif not state.works:
            reasons[kind] = state.reason
    return reasons


# -- ranks and roles --------------------------------------------------------------------------------------------


def _nodes(view: JobView) -> set[int]:
    return {who.node for who in view.lives}


def _latest(view: JobView, number: int) -> Incarnation | None:
    mine = [(life.last_ns, who) for who, life in view.lives.items() if who.rank == number]
    return max(mine)[1] if mine else None


def _host_of(view: JobView, number: int) -> str:
    who = _latest(view, number)
    return view.machines[who.node].host if who else ""


def _rank_reports(
    view: JobView, evidence: Mapping[int, RankEvidence], roofs: Mapping[str, roofline.Roof | None], mode: str
) -> list[RankReport]:
    reports = []
    for number, rank in evidence.items():
        who = _latest(view, number)
        whose = "" if not len(rank.steps.step) else f"workers ({mode})" if rank.serving else "own"
        reports.append(
            RankReport(
                rank.key,
                rank.role,
                view.ranks[number].index,
                rank.host,
                who.pid if who else 0,
                who.name if who else "",
                whose,
                summarize([rank], roofs, Scope.PROCESS),
            )
        )
    return sorted(reports, key=lambda r: (_order(r.role), r.index))


def _role_reports(
    evidence: Mapping[int, RankEvidence], roofs: Mapping[str, roofline.Roof | None]
) -> list[RoleReport]:
    by_role: dict[str, list[RankEvidence]] = {}
    for rank in evidence.values():
        by_role.setdefault(rank.role, []).append(rank)
    return [
        RoleReport(
            role, len(ranks), sorted({r.host for r in ranks if r.host}), summarize(ranks, roofs, Scope.ROLE)
        )
        for role, ranks in sorted(by_role.items(), key=lambda item: _order(item[0]))
    ]


def _order(role: str) -> tuple[int, str]:
    return (ROLE_ORDER.index(role) if role in ROLE_ORDER else len(ROLE_ORDER), role)


def _roofs(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[str, roofline.Roof | None]:
    precision = dominant_precision([r.kernels for r in evidence.values() if r.kernels is not None])
    machines = [view.machines[node] for node in _nodes(view)]
    return {m.host: roofline.make_roof(m.host, m.ceilings, precision) for m in machines}


def _roof_reports(view: JobView, roofs: Mapping[str, roofline.Roof | None]) -> list[RoofReport]:
    reports = {}
    for node in sorted(_nodes(view)):
        machine = view.machines[node]
        roof = roofs[machine.host]
        note = f"{machine.cpu_model}, {machine.cpus} CPUs; the whole node, shared by all its ranks"
        drawn = roofline.lines(machine.ceilings, roof)
        reports[machine.host] = RoofReport(machine.host, note, drawn, list(machine.ceilings))
    return list(reports.values())


def _points(ranks: list[RankReport]) -> list[Point]:
    points = []
    for rank in ranks:
        intensity = rank.summary.values["intensity.minimum"]
        flops = rank.summary.values["flops_per_second"]
        if intensity.value is not None and flops.value is not None:
            points.append(
                Point(
                    rank.rank, rank.role, rank.host, intensity.value, flops.value, flops.provenance, "minimum"
                )
            )
    return points


# -- time, gaps, notes ------------------------------------------------------------------------------------------


def _extent(view: JobView) -> tuple[int, int]:
    """Server time from the first to the last that was heard of the job."""
    if not view.lives:
        steps = view.steps.get("steps", {})
        return (int(steps["begin_ns"].min()), int(steps["end_ns"].max())) if rows(steps) else (0, 0)
    moments = [_on_clock(view, who, life) for who, life in view.lives.items()]
    return min(m[0] for m in moments), max(m[1] for m in moments)


def _on_clock(view: JobView, who: Incarnation, life: Life) -> tuple[int, int]:
    both = view.clocks[who.node].to_server(np.array([life.first_ns, life.last_ns], np.int64))
    return int(both[0]), int(both[1])


def is_running(view: JobView, now_ns: int) -> bool:
    """Whether a rank that has not been seen to end was heard of lately."""
    return any(
        not life.exited and now_ns - _on_clock(view, who, life)[1] < RUNNING_NS
        for who, life in view.lives.items()
    )


def _alignment(view: JobView) -> list[tuple[str, Value]]:
    found = []
    for node in sorted(_nodes(view)):
        error = view.clocks[node].error_ns
        host = view.machines[node].host
        if error is None:
            found.append((host, Value(None, "s", reason="no ping of this node was answered yet")))
        else:
            found.append((host, Value(error / 1e9, "s", Provenance.MEASURED, Scope.NODE)))
    return found


def _gaps(view: JobView, begin_ns: int, end_ns: int) -> list[Gap]:
    """Holes between the stretches an agent watched its node, as far as the job was there."""
    found = []
    for node, table in view.watched.items():
        seen = _where(table, "kind", EventKind.BATCH)
        if not rows(seen):
            continue
        begins, ends = merge(seen["time_ns"].astype(np.int64), seen["end_ns"].astype(np.int64), GAP_NS)
        clock, host = view.clocks[node], view.machines[node].host
        lives = [life for who, life in view.lives.items() if who.node == node]
        first, last = min(v.first_ns for v in lives), max(v.last_ns for v in lives)
        for hole_begin, hole_end in zip(ends[:-1].tolist(), begins[1:].tolist(), strict=True):
            if hole_end > first and hole_begin < last:
                on_server = clock.to_server(np.array([hole_begin, hole_end], np.int64))
                reason = _why_gap(table, hole_begin, hole_end)
                found.append(Gap(host, "", int(on_server[0]), int(on_server[1]), reason))
    return sorted(found, key=lambda gap: gap.begin_ns)


def _why_gap(events: Table, begin_ns: int, end_ns: int) -> str:
    started = events["kind"] == EventKind.AGENT_STARTED
    near = (events["time_ns"] > begin_ns) & (events["time_ns"] <= end_ns + GAP_NS)
    if bool(np.any(started & near)):
        return "the agent was not running and was started again"
    return "batches were dropped: the spool was full or the server refused them"


def _notes(view: JobView, report: Report) -> list[str]:
    notes = _gap_notes(report) + _hole_notes(view) + _alignment_notes(report)
    for table, where in ((view.events, view.ranks), *((t, {}) for t in view.watched.values())):
        notes += _event_notes(table, where)
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


def _hole_notes(view: JobView) -> list[str]:
    own = _where(view.steps.get("steps", {}), "window", OWN)
    notes = []
    for number in np.unique(own["rank"]).tolist() if rows(own) else ():
        steps = np.unique(_where(own, "rank", number)["step"])
        missing = int(steps[-1] - steps[0] + 1 - len(steps))
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


def _event_notes(events: Table, ranks: Mapping[int, object]) -> list[str]:
    if not rows(events):
        return []
    totals: dict[tuple[int, str], int] = {}
    for kind in (EventKind.LOST, EventKind.REFUSED, EventKind.SOURCE_FAILED):
        for text, count in zip(
            *(_where(events, "kind", kind).get(c, ()) for c in ("text", "count")), strict=True
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


# -- jobs -------------------------------------------------------------------------------------------------------


def summarize_job(job: str, view: JobView, now_ns: int) -> JobSummary:
    begin, end = _extent(view)
    roles: dict[str, int] = {}
    for key in view.ranks.values():
        roles[key.role] = roles.get(key.role, 0) + 1
    ordered = dict(sorted(roles.items(), key=lambda item: _order(item[0])))
    hosts = sorted({view.machines[n].host for n in _nodes(view)})
    return JobSummary(job, begin, end, ordered, hosts, is_running(view, now_ns))


__all__ = ["ABSENT", "JobSummary", "MetricKind", "Report", "Steps", "build", "summarize_job"]
