"""What metrics are, by job: kind, unit and scope as the first process of that job described them.

A description holds for its job alone, so that a wrong one costs no other job. Values that come with another
description than their job's are absent: they cannot be compared with the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...records import ABSENT, Frame, Ints, Metric
from .catalog import Catalog

log = logging.getLogger(__name__)

SAMPLES = "samples_"
_NAN = int(np.array(np.nan).view(np.int64))


def _meaning(metric: Metric) -> tuple[int, str, bool]:
    """What values of one column must have in common; scope and provenance may differ between nodes."""
    return metric.kind, metric.unit, metric.is_double


class _Fitted(NamedTuple):
    """The metrics of a schema, as they were sent and as a job has them."""

    sent: tuple[Metric, ...]
    kept: tuple[Metric, ...]
    others: Ints  # positions of those that the job describes otherwise


class Descriptions:
    """Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        count: Callable[[int | None, int], None],
        keep: Callable[[list[Metric], list[tuple[str, Metric]]], None],
    ) -> None:
        """count: called with a node and how many metrics it is the first to name; may raise BadBatch. keep:
        called with new metrics, and with those that jobs describe otherwise, to be written."""
        self._count, self._keep = count, keep
        self._lock = threading.Lock()
        self._first = catalog.metrics()  # by (counter set, name), whatever the job
        self._of_job = catalog.job_metrics()  # job -> (counter set, name) -> where it is not that
        self._before = catalog.datasets()  # (job, dataset) that are stored: their metrics are described
        self._described: dict[tuple[str, str], dict[str, Metric]] = {}  # (job, counter set) -> name -> metric
        self._fitted: dict[tuple[str, str], list[_Fitted]] = {}

    def fit(self, frame: Frame, node: int | None = None) -> Frame:
        """Samples with the descriptions of their job, which those of a new metric become. Raises BadBatch
        where the node names too many."""
        if not frame.metrics or frame.values is None:
            return frame
        fitted = self._fit(frame.job, frame.metrics, node)
        if not len(fitted.others):
            return frame._replace(metrics=fitted.kept)
        values = frame.values.copy()
        for at in fitted.others.tolist():
            values[at] = _NAN if fitted.kept[at].is_double else ABSENT
        return frame._replace(metrics=fitted.kept, values=values)

    def _fit(self, job: str, sent: tuple[Metric, ...], node: int | None) -> _Fitted:
        place = job, sent[0].counter_set
        for known in self._fitted.get(place, ()):
            if known.sent is sent:  # schemas are cached: hashing them would be slow
                return known
        with self._lock:
            kept = self._describe(job, sent, node)
            pairs = enumerate(zip(sent, kept, strict=True))
            others = [at for at, (a, b) in pairs if _meaning(a) != _meaning(b)]
            if others:
                names = ", ".join(sent[at].name for at in others[:5])
                log.warning(
                    "job %s: node %s describes %s of counter set %s otherwise than the first process of the "
                    "job did: its values are absent",
                    *(job, node, names, place[1]),
                )
            # One object for what is the same: rows are put together by it.
            fitted = _Fitted(sent, sent if kept == sent else kept, np.array(others, np.int64))
            self._fitted[place] = [*self._fitted.get(place, ())[-7:], fitted]
            return fitted

    def _describe(self, job: str, sent: Sequence[Metric], node: int | None) -> tuple[Metric, ...]:
        counter_set = sent[0].counter_set
        known = self._described.setdefault((job, counter_set), {})
        new = [m for m in sent if (counter_set, m.name) not in self._first]
        self._count(node, len(new))
        exceptions = self._of_job.setdefault(job, {})
        own = []
        for metric in sent:
            key = counter_set, metric.name
            if metric.name in known:
                continue
            first = self._first.get(key, metric)
            is_before = (job, SAMPLES + counter_set) in self._before
            known[metric.name] = exceptions.get(key) or (first if is_before else metric)
            if known[metric.name] != first and key not in exceptions:
                own.append(metric)
        if new or own:
            self._keep(new, [(job, metric) for metric in own])
        self._first.update({(counter_set, m.name): m for m in new})
        exceptions.update({(counter_set, m.name): m for m in own})
        return tuple(known[metric.name] for metric in sent)

    def of(self, job: str | None = None) -> dict[str, list[Metric]]:
        """All metrics by counter set, as a job has them; None: as they were first described."""
        exceptions = self._of_job.get(job, {}) if job is not None else {}
        found: dict[str, list[Metric]] = {}
        for key, metric in list(self._first.items()):
            found.setdefault(key[0], []).append(exceptions.get(key, metric))
        return found
