"""What a report said, in the few words that are scored."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..end_to_end.conftest import Site


class Named(NamedTuple):
    """A finding: what, of which rank ("": of all), s a step."""

    kind: str
    rank: str
    cost_s: float | None
    gain_low_s: float | None
    gain_high_s: float | None
    confidence: str


class Said(NamedTuple):
    """The verdict: its findings, the bottleneck first where the kind says that there is one."""

    kind: str  # bottleneck, healthy, unclear, unknown
    headline: str
    findings: list[Named]
    parts: dict[str, dict[str, float | None]]  # rank -> part of its account -> s a step


def ask(site: Site, job: str) -> Said:
    """Of the steps that a report is about by itself."""
    done = site.ask("report", "--job", job, "--format", "json")
    assert done.returncode == 0, done.stderr
    return of_verdict(json.loads(done.stdout)["verdict"])


def of_verdict(verdict: dict[str, Any]) -> Said:
    found = [one for one in [verdict["bottleneck"], *verdict["also"]] if one]
    parts = {
        account["rank"]: {
            "step": _number(account["step"]),
            **{p["part"]: _number(p["time"]) for p in account["parts"]},
        }
        for account in verdict["accounts"]
    }
    return Said(verdict["kind"], verdict["headline"], [_named(one) for one in found], parts)


def _named(finding: dict[str, Any]) -> Named:
    gain = finding["gain"]
    low, high = (gain["step"] - gain["high"], gain["step"] - gain["low"]) if gain else (None, None)
    return Named(finding["kind"], finding["rank"], _number(finding["cost"]), low, high, finding["confidence"])


def _number(value: dict[str, Any] | None) -> float | None:
    return value["value"] if value else None
