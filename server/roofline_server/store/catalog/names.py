"""The part of the catalog with who and what there is: nodes, ranks, kernels, metrics, machines, tags."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance, Scope

from ...records import KernelKind, Machine, Metric, NodeKey, RankKey
from .machine_versions import MachineState
from .tables import JOB_METRIC, KERNEL, MACHINE, METRIC, NODE, OWNER, RANK, RUN_PROCESS, SEGMENT, TAG

MOST_ASKED = 500  # values in one question; databases have limits


class NewNames(NamedTuple):
    """Names that have numbers and are not written yet."""

    ranks: dict[RankKey, int]
    kernels: dict[KernelKind, int]
    metrics: list[Metric]
    of_jobs: list[tuple[str, Metric]]  # metrics that jobs describe otherwise

    def before(self, later: NewNames) -> NewNames:
        """These and later ones."""
        return NewNames(
            self.ranks | later.ranks,
            self.kernels | later.kernels,
            self.metrics + later.metrics,
            self.of_jobs + later.of_jobs,
        )


class Names:
    _engine: sa.Engine

    def name_ids(self) -> tuple[dict[NodeKey, int], dict[RankKey, int], dict[KernelKind, int]]:
        """The ids of nodes, ranks and kernels."""
        with self._engine.connect() as db:
            nodes = {NodeKey(r.agent, r.boot): r.id for r in db.execute(sa.select(NODE))}
            ranks = {RankKey(*r[1:]): r[0] for r in db.execute(sa.select(RANK))}
            kernels = {KernelKind(*r[1:]): r[0] for r in db.execute(sa.select(KERNEL))}
            return nodes, ranks, kernels

    def metrics(self) -> dict[tuple[str, str], Metric]:
        """Metrics by (counter set, name), as they were first described."""
        with self._engine.connect() as db:
            return {(r.counter_set, r.name): _metric(r) for r in db.execute(sa.select(METRIC))}

    def job_metrics(self) -> dict[str, dict[tuple[str, str], Metric]]:
        """Metrics by job, of jobs that describe them otherwise than `metrics` has them."""
        found: dict[str, dict[tuple[str, str], Metric]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(JOB_METRIC)):
                found.setdefault(r.job, {})[r.counter_set, r.name] = _metric(r)
        return found

    def datasets(self) -> set[tuple[str, str]]:
        """(job, dataset) of all segments."""
        with self._engine.connect() as db:
            query = sa.select(SEGMENT.c.job, SEGMENT.c.dataset).distinct()
            return {(r.job, r.dataset) for r in db.execute(query)}

    def add_nodes(self, reports: Mapping[NodeKey, Machine]) -> dict[NodeKey, int]:
        """The nodes' ids; what is known of their machines is brought up to date. One commit for all."""
        texts = {key: _machine_text(machine) for key, machine in reports.items()}
        with self._engine.begin() as db:
            known = _known_nodes(db, texts)
            for key, node in known.items():
                db.execute(NODE.update().where(NODE.c.id == node).values(machine=texts[key]))
            new = [key for key in texts if key not in known]
            if new:
                insert = NODE.insert().returning(NODE.c.id, sort_by_parameter_order=True)
                rows = [{**key._asdict(), "machine": texts[key]} for key in new]
                known.update(zip(new, db.execute(insert, rows).scalars(), strict=True))
        return known

    def machines(self) -> dict[int, Machine]:
        """What each node reported last."""
        with self._engine.connect() as db:
            return {r.id: _machine(r.machine) for r in db.execute(sa.select(NODE.c.id, NODE.c.machine))}

    def machine_states(self) -> dict[str, list[MachineState]]:
        """What each agent reported of its machine, in order."""
        found: dict[str, list[MachineState]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(MACHINE).order_by(MACHINE.c.id)):
                state = MachineState(r.version, r.since_ns, _machine(r.machine))
                found.setdefault(r.agent, []).append(state)
        return found

    def add_machine_states(self, states: Iterable[tuple[str, MachineState, bool]]) -> None:
        """Keep what agents reported, after all earlier states, or (True) instead of the last of them. One
        commit for all."""
        with self._engine.begin() as db:
            for agent, state, replaces in states:
                if replaces:
                    last = sa.select(sa.func.max(MACHINE.c.id)).where(MACHINE.c.agent == agent)
                    db.execute(MACHINE.delete().where(MACHINE.c.id == db.execute(last).scalar()))
                values = {**state._asdict(), "agent": agent, "machine": _machine_text(state.machine)}
                db.execute(MACHINE.insert().values(values))

    def tags(self) -> list[tuple[str, str, str, int]]:
        """All tags of jobs: (job, name, value, when it was reported)."""
        with self._engine.connect() as db:
            return [(r.job, r.name, r.value, r.said_ns) for r in db.execute(sa.select(TAG))]

    def put_tags(self, tags: Iterable[tuple[str, str, str, int]]) -> None:
        """Keep tags, as `tags` gives them; one that is known gets the new time."""
        with self._engine.begin() as db:
            for job, name, value, reported_ns in tags:
                c = TAG.c
                db.execute(TAG.delete().where((c.job == job) & (c.name == name) & (c.value == value)))
                db.execute(TAG.insert().values(job=job, name=name, value=value, said_ns=reported_ns))

    def owners(self) -> set[tuple[str, str]]:
        """Runs, and who submitted ranks of them."""
        with self._engine.connect() as db:
            return {(r.job, r.user) for r in db.execute(sa.select(OWNER))}

    def add_owners(self, found: Iterable[tuple[str, str]]) -> None:
        """Keep what `owners` gives; what is known already may be among it."""
        with self._engine.begin() as db:
            known = {(r.job, r.user) for r in db.execute(sa.select(OWNER))}
            if new := set(found) - known:
                db.execute(OWNER.insert(), [{"job": job, "user": user} for job, user in sorted(new)])

    def add_names(self, new: NewNames) -> None:
        """Write these: one commit for all."""
        if not any(new):
            return
        with self._engine.begin() as db:
            if new.ranks:
                db.execute(RANK.insert(), [{**key._asdict(), "id": id_} for key, id_ in new.ranks.items()])
            if new.kernels:
                db.execute(KERNEL.insert(), [{**k._asdict(), "id": id_} for k, id_ in new.kernels.items()])
            if new.metrics:
                db.execute(METRIC.insert(), [_metric_row(metric) for metric in new.metrics])
            if new.of_jobs:
                db.execute(JOB_METRIC.insert(), [{"job": j, **_metric_row(m)} for j, m in new.of_jobs])

    def run_processes(self) -> dict[tuple[str, int, int, int], tuple[int, str]]:
        """(job, node, pid, start) -> number of its run, what starts it again."""
        with self._engine.connect() as db:
            return {
                (r.job, r.node, r.pid, r.start_ns): (r.number, r.launch)
                for r in db.execute(sa.select(RUN_PROCESS))
            }

    def add_run_processes(self, found: Mapping[tuple[str, int, int, int], tuple[int, str]]) -> None:
        """Keep what `run_processes` gives."""
        names = ("job", "node", "pid", "start_ns", "number", "launch")
        if found:
            with self._engine.begin() as db:
                values = [dict(zip(names, (*who, *what), strict=True)) for who, what in found.items()]
                db.execute(RUN_PROCESS.insert(), values)


def _metric(row: Any) -> Metric:
    return Metric(
        row.counter_set,
        row.name,
        row.kind,
        row.unit,
        Scope.of_number(row.scope),
        Provenance.of_number(row.provenance),
        bool(row.is_double),
        row.coverage_of,
    )


def _metric_row(metric: Metric) -> dict[str, Any]:
    return {**metric._asdict(), "scope": metric.scope.number, "provenance": metric.provenance.number}


def _known_nodes(db: sa.Connection, keys: Collection[NodeKey]) -> dict[NodeKey, int]:
    """Those of these nodes that there are."""
    found: dict[NodeKey, int] = {}
    agents = list({key.agent for key in keys})
    for at in range(0, len(agents), MOST_ASKED):
        asked = NODE.c.agent.in_(agents[at : at + MOST_ASKED])
        for row in db.execute(sa.select(NODE.c.id, NODE.c.agent, NODE.c.boot).where(asked)):
            key = NodeKey(row.agent, row.boot)
            if key in keys:
                found[key] = row.id
    return found


def _machine_text(machine: Machine) -> str:
    """A machine as JSON; enums as their numbers."""
    ceilings = [list({**c._asdict(), "provenance": c.provenance.number}.values()) for c in machine.ceilings]
    return json.dumps([*machine[:7], ceilings, *machine[8:]])


def _machine(text: str) -> Machine:
    host, model, sockets, cores, cpus, memory, kernel, ceilings, sources, interval_ns = json.loads(text)
    return Machine(
        host,
        model,
        sockets,
        cores,
        cpus,
        memory,
        kernel,
        tuple(_ceiling(fields) for fields in ceilings),
        tuple(SourceStatus(*fields) for fields in sources),
        interval_ns,
    )


def _ceiling(fields: list[Any]) -> Ceiling:
    """Catalogs of older servers have fewer fields."""
    named = dict(zip(Ceiling._fields, fields, strict=False))
    number = named.pop("provenance", Provenance.MEASURED.number)
    return Ceiling(**named, provenance=Provenance.of_number(number))
