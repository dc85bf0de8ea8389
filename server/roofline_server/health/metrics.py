"""The condition of a server in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from .condition import Condition, Distribution
from .jobs import Figures, JobFigures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"


class MetricValue(NamedTuple):
    """One number. value: None where it is not known, and then it is not shown."""

    name: str
    kind: str
    help: str
    value: float | None
    labels: Mapping[str, str] = {}


class Family(NamedTuple):
    """A number of several things, each with labels of its own."""

    name: str
    help: str
    values: Iterable[tuple[Mapping[str, str], float | None]]


def text(now: Condition, jobs: Figures | None = None) -> str:
    """What /metrics answers; docs/operations.md explains the names. jobs: None where nothing is known yet."""
    lines = [line for reading in _readings(now) for line in _reading(reading)]
    if jobs is not None:
        lines += [line for family in _of_jobs(jobs) for line in _family(family)]
    lines += _histogram("roofline_commit_seconds", "Time of a commit of batches to the inbox.", now.commit)
    lines += _histogram("roofline_seal_seconds", "Time of a sealing.", now.seal)
    return "\n".join(lines) + "\n"


def _readings(now: Condition) -> Iterator[MetricValue]:
    about = {"version": now.version, "python": now.python}
    yield MetricValue("roofline_build_info", GAUGE, "Versions of the server and of its Python.", 1, about)
    yield MetricValue("roofline_ready", GAUGE, "1: the server takes batches.", int(now.ready))
    yield from _ingest(now)
    yield from _store(now)
    yield from _process(now)


def _ingest(now: Condition) -> Iterator[MetricValue]:
    yield MetricValue("roofline_agents", GAUGE, "Agents that are connected.", now.agents)
    yield MetricValue("roofline_streams", GAUGE, "Streams of agents that are open.", now.streams)
    hold = now.hold_s
    yield MetricValue("roofline_hold_seconds", GAUGE, "Agents are asked to gather a batch so long.", hold)
    yield MetricValue("roofline_batches_total", COUNTER, "Batches made durable.", now.batches)
    yield MetricValue("roofline_rows_total", COUNTER, "Rows in the batches made durable.", now.rows)
    yield MetricValue("roofline_batch_bytes_total", COUNTER, "Bytes of the batches made durable.", now.bytes)
    yield MetricValue("roofline_batches_refused_total", COUNTER, "Malformed batches.", now.refused)
    yield MetricValue("roofline_batches_doubled_total", COUNTER, "Batches that came again.", now.doubled)
    yield MetricValue("roofline_queue_batches", GAUGE, "Batches that wait for a commit.", now.queued_batches)
    yield MetricValue("roofline_queue_bytes", GAUGE, "Bytes that wait for a commit.", now.queued_bytes)
    failing = int(bool(now.inbox_failure))
    yield MetricValue("roofline_inbox_failing", GAUGE, "1: the inbox cannot be written.", failing)
    yield MetricValue("roofline_clock_error_seconds", GAUGE, "Largest of connected nodes.", now.clock_error_s)
    unknown = now.unmeasured_clocks
    yield MetricValue("roofline_unmeasured_clocks", GAUGE, "Connected nodes of unknown clock error.", unknown)
    yield MetricValue(
        "roofline_refused_calls_total", COUNTER, "Calls without a token for them.", now.refusals
    )


def _store(now: Condition) -> Iterator[MetricValue]:
    age = None if now.last_seal is None else max(0.0, now.time - now.last_seal)
    yield MetricValue("roofline_unsealed_bytes", GAUGE, "Bytes that wait for a sealing.", now.unsealed_bytes)
    limit = now.unsealed_limit_bytes
    yield MetricValue("roofline_unsealed_limit_bytes", GAUGE, "Beyond so many agents wait.", limit)
    yield MetricValue("roofline_seals_failed_total", COUNTER, "Sealings that failed.", now.seals_failed)
    yield MetricValue("roofline_last_seal_age_seconds", GAUGE, "Since the last sealing that succeeded.", age)
    yield MetricValue("roofline_damaged_files", GAUGE, "Segments found damaged.", len(now.damaged))
    yield MetricValue("roofline_quarantined_files", GAUGE, "Files set apart.", now.quarantined)
    yield MetricValue("roofline_disk_free_bytes", GAUGE, "Free for the data directory.", now.disk_free_bytes)
    yield MetricValue("roofline_disk_size_bytes", GAUGE, "Size of its file system.", now.disk_size_bytes)


def _process(now: Condition) -> Iterator[MetricValue]:
    lag = now.loop_lag_s
    yield MetricValue("roofline_loop_lag_seconds", GAUGE, "How late the event loop was lately, at most.", lag)
    yield MetricValue("process_resident_memory_bytes", GAUGE, "Memory in use.", now.memory_bytes)
    yield MetricValue("process_cpu_seconds_total", COUNTER, "CPU time, user and system.", now.cpu_s)
    yield MetricValue("process_start_time_seconds", GAUGE, "UNIX time of the start.", now.started)
    yield MetricValue("process_open_fds", GAUGE, "Open files and connections.", now.open_files)
    yield MetricValue("process_threads", GAUGE, "Threads.", now.threads)


# -- jobs that run: their attributes are in one metric, so that a job's label does not multiply series ----


def _of_jobs(found: Figures) -> Iterator[Family]:
    jobs = found.jobs
    yield Family("roofline_jobs_running", "Jobs that run.", [({}, len(jobs) + found.omitted)])
    yield Family("roofline_job_info", "Who and what a job is.", [(_info(job), 1) for job in jobs])
    for name, help_text, value in _NUMBERS:
        yield Family(f"roofline_job_{name}", help_text, [({"job": job.job}, value(job)) for job in jobs])
    roles = [({"job": job.job, "role": role.role}, role) for job in jobs for role in job.roles]
    yield Family("roofline_job_ranks", "Ranks of a role.", [(of, role.ranks) for of, role in roles])
    flops = [(of, role.flops_per_second) for of, role in roles]
    yield Family("roofline_job_flops_per_second", "FLOP/s of all ranks of a role.", flops)
    shares = [(of, role.roof_share) for of, role in roles]
    yield Family("roofline_job_roof_share", "FLOP/s over what the roof lets the role attain.", shares)
    parts = [({**of, "part": part}, share) for of, role in roles for part, share in role.shares.items()]
    yield Family("roofline_job_part_share", "Share of the mean step, mean over the ranks of a role.", parts)
    held = [
        ({"job": job.job, "kind": job.bottleneck}, job.bottleneck_share) for job in jobs if job.bottleneck
    ]
    yield Family("roofline_job_bottleneck_share", "Share of the step that the bottleneck costs.", held)


_NUMBERS: tuple[tuple[str, str, Callable[[JobFigures], float | None]], ...] = (
    ("nodes", "Nodes with ranks of a job.", lambda job: job.nodes),
    ("seconds", "Since a job's begin.", lambda job: job.seconds),
    ("step_seconds", "Median of the steady steps.", lambda job: job.step_seconds),
    ("examples_per_second", "Throughput in the steady steps.", lambda job: job.examples_per_second),
    ("peak_share", "FLOP/s over the largest measured peaks of all devices.", lambda job: job.peak_share),
)


def _info(job: JobFigures) -> dict[str, str]:
    """Labels: the job, what Slurm says of it and its experiment; "" what is not known."""
    tags = {name: job.tags.get(f"slurm.{name}", "") for name in ("user", "account", "partition", "name")}
    return {"job": job.job, **tags, "experiment": job.tags.get("experiment", "")}


def _family(family: Family) -> list[str]:
    shown = [(labels, value) for labels, value in family.values if value is not None]
    lines = [f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in shown]
    return [*_head(family.name, GAUGE, family.help), *lines] if lines else []


def _reading(reading: MetricValue) -> list[str]:
    if reading.value is None:
        return []
    head = _head(reading.name, reading.kind, reading.help)
    return [*head, f"{reading.name}{_labels(reading.labels)} {_number(reading.value)}"]


def _histogram(name: str, help_text: str, found: Distribution) -> list[str]:
    lines = _head(name, "histogram", help_text)
    bounds = [*map(_number, found.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(found.counts), strict=True):
        lines.append(f'{name}_bucket{{le="{bound}"}} {count}')
    return [*lines, f"{name}_sum {_number(found.total)}", f"{name}_count {found.number}"]


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
