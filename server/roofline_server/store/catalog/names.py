"""The part of the catalog with who and what there is: nodes, ranks, kernels, metrics, machines, tags."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance, Scope

from ...records import KernelKind, Machine, Metric, NodeKey, RankKey
from .machine_versions import MachineState
from .tables import KERNEL, MACHINE, METRIC, NODE, OWNER, RANK, RUN_PROCESS, TAG


class Names:
    _engine: sa.Engine

    def name_ids(
        self,
    ) -> tuple[dict[NodeKey, int], dict[RankKey, int], dict[KernelKind, int], dict[tuple[str, str], Metric]]:
        """The ids of nodes, ranks and kernels; and the metrics by (counter set, name)."""
        with self._engine.connect() as db:
            nodes = {NodeKey(r.agent, r.boot): r.id for r in db.execute(sa.select(NODE))}
            ranks = {RankKey(*r[1:]): r[0] for r in db.execute(sa.select(RANK))}
            kernels = {KernelKind(*r[1:]): r[0] for r in db.execute(sa.select(KERNEL))}
            metrics = {}
            for r in db.execute(sa.select(METRIC)):
                metrics[r.counter_set, r.name] = Metric(
                    r.counter_set,
                    r.name,
                    r.kind,
                    r.unit,
                    Scope.of_number(r.scope),
                    Provenance.of_number(r.provenance),
                    bool(r.is_double),
                    r.coverage_of,
                )
            return nodes, ranks, kernels, metrics

    def add_nodes(self, reports: Mapping[NodeKey, Machine]) -> dict[NodeKey, int]:
        """The nodes' ids; what is known of their machines is brought up to date. One commit for all."""
        found: dict[NodeKey, int] = {}
        with self._engine.begin() as db:
            for key, machine in reports.items():
                text = _machine_text(machine)
                same = (NODE.c.agent == key.agent) & (NODE.c.boot == key.boot)
                known = db.execute(sa.select(NODE.c.id).where(same)).scalar()
                if known is not None:
                    db.execute(NODE.update().where(same).values(machine=text))
                    found[key] = int(known)
                else:
                    found[key] = _new_id(db.execute(NODE.insert().values(**key._asdict(), machine=text)))
        return found

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

    def add_ranks(self, keys: Sequence[RankKey]) -> list[int]:
        """Their ids, in order: one commit for all."""
        return self._add(RANK, [key._asdict() for key in keys])

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

    def add_kernels(self, kinds: Sequence[KernelKind]) -> list[int]:
        """Likewise."""
        return self._add(KERNEL, [kind._asdict() for kind in kinds])

    def _add(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> list[int]:
        insert = table.insert().returning(table.c.id, sort_by_parameter_order=True)
        with self._engine.begin() as db:
            return list(db.execute(insert, rows).scalars())

    def add_metrics(self, metrics: Iterable[Metric]) -> None:
        with self._engine.begin() as db:
            for metric in metrics:
                numbers = {"scope": metric.scope.number, "provenance": metric.provenance.number}
                db.execute(METRIC.insert().values({**metric._asdict(), **numbers}))


def _new_id(done: sa.CursorResult[Any]) -> int:
    key = done.inserted_primary_key
    assert key is not None
    return int(key[0])


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
