"""The part of the catalog that relates the nodes' times to the server's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import sqlalchemy as sa

from ...records import ClockSample, Ints
from .tables import ARRIVAL, CLOCK_SAMPLE, JOB_CLOCK, SETTLED


class Times:
    _engine: sa.Engine

    def put_clocks(
        self,
        samples: Iterable[tuple[int, ClockSample]],
        dropped: Iterable[tuple[int, int]] = (),
        arrivals: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Keep clock samples of nodes, forget those of (node, node time), set nodes' offsets by arrival."""
        # The newest of two for one moment counts. Many rows at once take a fraction of as many statements.
        new = {(node, sample.node_ns): {"node": node, **sample._asdict()} for node, sample in samples}
        old = set(dropped)
        gone = [{"of_node": node, "at_ns": node_ns} for node, node_ns in old.union(new)]
        kept = [row for key, row in new.items() if key not in old]
        least = [{"node": node, "offset_ns": offset_ns} for node, offset_ns in arrivals.items()]
        with self._engine.begin() as db:
            if gone:
                db.execute(
                    CLOCK_SAMPLE.delete().where(_is_of(sa.bindparam("of_node"), sa.bindparam("at_ns"))), gone
                )
            if kept:
                db.execute(CLOCK_SAMPLE.insert(), kept)
            if least:
                nodes = [{"of_node": row["node"]} for row in least]
                db.execute(ARRIVAL.delete().where(ARRIVAL.c.node == sa.bindparam("of_node")), nodes)
                db.execute(ARRIVAL.insert(), least)

    def arrivals(self) -> dict[int, int]:
        """Least time between the end of a node's batch, in its own time, and its arrival in the server's."""
        with self._engine.connect() as db:
            return {r.node: r.offset_ns for r in db.execute(sa.select(ARRIVAL))}

    def settled(self) -> dict[str, dict[int, float]]:
        """By job and node, how far wrong times in stored step windows can be."""
        found: dict[str, dict[int, float]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(SETTLED)):
                found.setdefault(r.job, {})[r.node] = r.error_ns
        return found

    def put_settled(self, job: str, errors: Mapping[int, float]) -> None:
        """Replace what `settled` gives for a job."""
        with self._engine.begin() as db:
            db.execute(SETTLED.delete().where(SETTLED.c.job == job))
            for node, error_ns in errors.items():
                db.execute(SETTLED.insert().values(job=job, node=node, error_ns=error_ns))

    def job_clocks(self, job: str | None = None) -> dict[tuple[str, int], Ints]:
        """(job, node) -> the clock samples that reports of a job that is over are made with, as rows of
        (node_ns, offset_ns, rtt_ns). job: of this one alone."""
        query = sa.select(JOB_CLOCK)
        with self._engine.connect() as db:
            found = db.execute(query if job is None else query.where(JOB_CLOCK.c.job == job))
            return {(r.job, r.node): np.array(json.loads(r.samples), np.int64).reshape(-1, 3) for r in found}

    def put_job_clock(self, job: str, node: int, samples: Sequence[Sequence[int]]) -> None:
        """Replace what `job_clocks` gives for a job and a node."""
        with self._engine.begin() as db:
            db.execute(JOB_CLOCK.delete().where((JOB_CLOCK.c.job == job) & (JOB_CLOCK.c.node == node)))
            db.execute(JOB_CLOCK.insert().values(job=job, node=node, samples=json.dumps(samples)))

    def clock_samples(self) -> dict[int, list[ClockSample]]:
        """All clock samples by node, in order of time."""
        found: dict[int, list[ClockSample]] = {}
        query = sa.select(CLOCK_SAMPLE).order_by(CLOCK_SAMPLE.c.node, CLOCK_SAMPLE.c.node_ns)
        with self._engine.connect() as db:
            for r in db.execute(query):
                found.setdefault(r.node, []).append(ClockSample(r.node_ns, r.offset_ns, int(r.rtt_ns)))
        return found


def _is_of(node: Any, node_ns: Any) -> Any:
    return (CLOCK_SAMPLE.c.node == node) & (CLOCK_SAMPLE.c.node_ns == node_ns)
