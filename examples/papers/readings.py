"""What the product says of each job, as plain numbers by name: claims are judged by these and nothing else.

Names are `worker.flops_per_second` (a role's value of `report`), `ps:1.received_bytes_per_second` (a rank's),
`account.compute` (share of the step, mean of the ranks that train), `width.512-bit` (share of the FLOPs),
`kernel.convolution forward_training` (seconds a step), `traced.communication` (share of traced steps),
`time.OPERATION.flops` (of the time-based roofline), `asked` and `engine` (collectives a step),
`payload.large.bytes`. What was not measured is not there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from roofline_client import connect

VALUES = (
    "examples_per_second",
    "step_time_median",
    "flops_per_step",
    "flops_per_second",
    "bytes_per_step.minimum",
    "intensity.minimum",
    "attainable_flops_per_second",
    "roof_share",
    "cpu_time_per_step",
    "sent_bytes_per_step",
    "received_bytes_per_step",
    "sent_bytes_per_second",
    "received_bytes_per_second",
)
SERVER_VALUES = ("busy", "waiting", "demand_per_step")
# Of traced steps what is no layer of the model, by layer of the software.
SOFTWARE = {
    "(RecvTensor)": "communication",
    "(SendTensor)": "communication",
    "(collective)": "communication",
    "(updates on servers)": "communication",
    "(input)": "framework",
    "(no layer)": "framework",
    "(nothing ran)": "nothing ran",
}
PARTS = {"flops_by_width": "width", "flops_by_precision": "precision", "work_and_memory": "work"}
Number = tuple[str, float]


class Reading(NamedTuple):
    """One job. verdict: its headline; numbers: by name."""

    key: str
    job: str
    tags: dict[str, str]
    verdict: str
    numbers: dict[str, float]


class Readings:
    """All jobs, by the key of their point."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self.by_key = {one.key: one for one in readings}

    def find(self, experiment: str, **tags: object) -> Reading | None:
        """The job of this experiment that has exactly these values where they are named."""
        wanted = {name: str(value) for name, value in tags.items()}
        for one in self.by_key.values():
            if one.tags.get("experiment") == experiment and wanted.items() <= one.tags.items():
                return one
        return None


def read(server: str, key: str, job: str) -> Reading:
    """Asks the server."""
    with connect(server) as client:
        asked = client.job(job)
        report = asked.report().record
        numbers = dict(_of_report(report))
        numbers |= dict(_of_servers(asked.stragglers().record.servers))
        parts = asked.breakdown().record.parts
        numbers |= {**dict(_of_parts(parts)), **_of_traced_steps(parts)}
        numbers |= dict(_of_time(asked.time_roofline().record.panels))
        steps = asked.steps().to_pandas()
        numbers |= dict(_of_collectives(steps))
        if len(steps):
            numbers["seconds_to_first_step"] = (steps["begin_ns"].min() - report.begin_ns) / 1e9
    headline = report.verdict.headline if report.verdict else ""
    return Reading(key, job, dict(report.tags), headline, {k: v for k, v in numbers.items() if v == v})


def _of_report(report: Any) -> Iterator[Number]:
    for who in [*report.roles, *report.ranks]:
        name = who.rank if hasattr(who, "rank") else who.role
        for value in VALUES:
            found = who.summary.values.get(value)
            if found is not None and found.value is not None:
                yield f"{name}.{value}", found.value
    training = [one for one in (report.verdict.accounts if report.verdict else ()) if one.parts]
    shares: dict[str, float] = defaultdict(float)
    for one in training:
        for part in one.parts:
            shares[part.part] += (part.share.value or 0.0) / len(training)
    yield from ((f"account.{part}", share) for part, share in shares.items())
    yield "seconds", (report.end_ns - report.begin_ns) / 1e9


def _of_servers(servers: Iterable[Any]) -> Iterator[Number]:
    for one in servers:
        for name, value in one.values.items():
            if value.value is not None and (name in SERVER_VALUES or name.startswith("payload.")):
                yield f"{one.rank}.{name}", value.value


def _of_parts(parts: Iterable[Any]) -> Iterator[Number]:
    for one in parts:
        if one.kind == "kernels_by_time" and one.value.value is not None:
            yield f"kernel.{one.part}", one.value.value
        elif one.kind in PARTS:
            amount = one.value if one.share.value is None else one.share
            if amount.value is not None:
                yield f"{PARTS[one.kind]}.{one.part}", amount.value


def _of_traced_steps(parts: Iterable[Any]) -> dict[str, float]:
    """Shares of layers of the software; what is of a layer of the model is computation."""
    shares: dict[str, float] = defaultdict(float)
    for one in parts:
        if one.kind == "layers_by_time" and one.share.value is not None:
            shares[f"traced.{SOFTWARE.get(one.part, 'compute')}"] += one.share.value
    return dict(shares)


def _of_time(panels: Iterable[Any]) -> Iterator[Number]:
    """Sums over the kernels of one operation, of a step."""
    sums: dict[str, float] = defaultdict(float)
    for panel in panels:
        if panel.launch_overhead.value is not None:
            sums["launch_overhead"] = panel.launch_overhead.value
        for point in panel.points:
            operation = f"time.{_operation(point.label)}"
            sums[f"{operation}.launches"] += point.launches or 0
            for name in ("time", "flops", "bytes"):
                sums[f"{operation}.{name}"] += getattr(point, name).value or 0.0
    yield from sums.items()


def _operation(label: str) -> str:
    """Of "convolution forward_training mb16_ic64...": without the problem."""
    return " ".join(word for word in label.split() if not any(letter.isdigit() for letter in word))


def _of_collectives(steps: Any) -> Iterator[Number]:
    for name in ("asked", "engine"):
        if f"{name}_count" in steps:
            known = steps[f"{name}_count"].dropna()
            if len(known):
                yield name, float(known.mean())


# -- kept as lines of JSON ----------------------------------------------------------------------------------


def keep(file: Path, reading: Reading) -> None:
    with open(file, "a") as lines:
        lines.write(json.dumps(reading._asdict()) + "\n")


def kept(file: Path) -> list[Reading]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [Reading(**json.loads(line)) for line in lines]
