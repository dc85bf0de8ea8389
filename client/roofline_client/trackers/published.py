"""What of a job goes to an experiment tracker: plain numbers, names and texts, whatever the tracker."""

from __future__ import annotations

from typing import NamedTuple

from roofline.answers.efficiency import Utilisation
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount

METRICS = {
    "examples_per_second": "examples_per_second",
    "step_median_seconds": "step_median",
    "step_mean_seconds": "step_mean",
    "step_p95_seconds": "step_p95",
}
OF_PEAKS = ("mfu", "hfu", "roofline_utilisation")


class Published(NamedTuple):
    """metrics and tags have no prefix; a value that was not measured is not among the metrics."""

    job: str
    begin_ns: int
    end_ns: int
    running: bool
    metrics: dict[str, float]
    tags: dict[str, str]
    headline: str


def published(report: Report, of_all: Utilisation | None) -> Published:
    """What is published of a report in full, and of what all ranks make of their peaks; None: not known.
    Parts of the step are means over the ranks of a role."""
    verdict = report.verdict
    metrics: dict[str, float] = {}
    tags = {**report.tags, "job": report.job, "state": report.state}
    headline = ""
    if verdict is not None:
        _add(metrics, {name: getattr(verdict, field) for name, field in METRICS.items()})
        metrics |= _parts(verdict.accounts)
        headline, tags["verdict"] = verdict.headline, verdict.kind
        if verdict.bottleneck is not None:
            tags["bottleneck"] = verdict.bottleneck.kind
            _add(metrics, {"bottleneck_share": verdict.bottleneck.share})
    if of_all is not None:
        # From step to step, with the time between steps, as examples per second are counted.
        seconds = next((one.value.value for one in of_all.measures if one.name == "step"), None)
        if seconds:
            metrics["steps_per_second"] = 1 / seconds
        _add(metrics, {one.name: one.value for one in of_all.measures if one.name in OF_PEAKS})
    for role in report.roles:
        metrics[f"ranks/{role.role}"] = role.ranks
        values = role.summary.values
        for name in ("flops_per_second", "roof_share", "energy_per_step"):
            _add(metrics, {f"{name}/{role.role}": values[name]} if name in values else {})
    return Published(report.job, report.begin_ns, report.end_ns, report.running, metrics, tags, headline)


def _add(metrics: dict[str, float], values: dict[str, Value]) -> None:
    metrics.update({name: value.value for name, value in values.items() if value.value is not None})


def _parts(accounts: list[RankAccount]) -> dict[str, float]:
    """Share of the step by role and part. A "|" between parts that cannot be told apart is written "_or_"."""
    shares: dict[tuple[str, str], list[float]] = {}
    ranks: dict[str, int] = {}
    for account in accounts:
        if account.parts:
            ranks[account.role] = ranks.get(account.role, 0) + 1
        for part in account.parts:
            shares.setdefault((account.role, part.part.replace("|", "_or_")), []).append(
                part.share.value or 0.0
            )
    return {f"share/{role}/{part}": sum(of) / ranks[role] for (role, part), of in shares.items()}
