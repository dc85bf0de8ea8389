"""The part of the catalog that says how the nodes' times lie to the server's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import sqlalchemy as sa

from ...records import Knot
from .tables import ARRIVAL, KNOT, SETTLED


class Times:
    _engine: sa.Engine

    def put_clocks(
        self,
        knots: Iterable[tuple[int, Knot]],
        dropped: Iterable[tuple[int, int]] = (),
        arrivals: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Keep clock exchanges of nodes, forget those of (node, node time), set nodes' offsets by arrival."""
        with self._engine.begin() as db:
            for node, knot in knots:
                db.execute(KNOT.delete().where(_knot_is(node, knot.node_ns)))
                db.execute(KNOT.insert().values(node=node, **knot._asdict()))
            for node, node_ns in dropped:
                db.execute(KNOT.delete().where(_knot_is(node, node_ns)))
            for node, offset_ns in arrivals.items():
                db.execute(ARRIVAL.delete().where(ARRIVAL.c.node == node))
                db.execute(ARRIVAL.insert().values(node=node, offset_ns=offset_ns))

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
        """Replace what `settled` says of a job."""
        with self._engine.begin() as db:
            db.execute(SETTLED.delete().where(SETTLED.c.job == job))
            for node, error_ns in errors.items():
                db.execute(SETTLED.insert().values(job=job, node=node, error_ns=error_ns))

    def knots(self) -> dict[int, list[Knot]]:
        """All knots by node, in order of time."""
        found: dict[int, list[Knot]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(KNOT).order_by(KNOT.c.node, KNOT.c.node_ns)):
                found.setdefault(r.node, []).append(Knot(r.node_ns, r.offset_ns, int(r.rtt_ns)))
        return found


def _knot_is(node: int, node_ns: int) -> sa.ColumnElement[bool]:
    return (KNOT.c.node == node) & (KNOT.c.node_ns == node_ns)
