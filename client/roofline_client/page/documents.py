"""The JSON documents of the page: the same as `--format json` prints, by question; and their description."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import __version__
from ..api import Client
from ..errors import ClientError, UsageError
from ..newest import resolve_job
from ..step_range import parse_steps
from ..tables import (
    agents,
    breakdowns,
    efficiencies,
    job_comparisons,
    jobs,
    machines,
    reports,
    rooflines,
    stragglers,
    trajectories,
)
from .watching import Chosen, overview_json

Ask = Callable[[Client], str]


class Document(NamedTuple):
    """needed, known: parameters that must and may be given, with what they are; ask: question of them."""

    summary: str
    needed: dict[str, str]
    known: dict[str, str]
    ask: Callable[[Client, Mapping[str, str]], str]

    def question(self, given: Mapping[str, str]) -> Ask:
        """Raises UsageError for parameters that are not those."""
        unknown = sorted(set(given) - set(self.needed) - set(self.known))
        missing = sorted(name for name in self.needed if not given.get(name))
        if unknown or missing:
            what = [
                *(f"{name} is missing" for name in missing),
                *(f"{name} is not known" for name in unknown),
            ]
            raise UsageError("; ".join(what))
        parse_steps(given.get("steps", ""))
        return lambda client: self.ask(client, _named(client, given))


JOB = {"job": "a job as the list of jobs names it, or last"}
STEPS = {"steps": "FIRST:LAST, either end can be omitted; all: every step; default: the steady steps"}


def _named(client: Client, given: Mapping[str, str]) -> Mapping[str, str]:
    """With the newest job where "last" is asked for."""
    jobs = {name: resolve_job(client, given[name]) for name in ("job", "first", "second") if name in given}
    return {**given, **jobs}


def _steps(given: Mapping[str, str]) -> dict[str, Any]:
    first, last = parse_steps(given.get("steps", ""))
    return {"first_step": first, "last_step": last}


ALL = {
    "jobs": Document("All jobs", {}, {}, lambda client, given: jobs.as_json(client.jobs())),
    "report": Document(
        "What holds a job up, and all tables of the report",
        JOB,
        STEPS,
        lambda client, given: reports.as_json(client.report(given["job"], **_steps(given))),
    ),
    "stragglers": Document(
        "Which rank the others wait for",
        JOB,
        STEPS,
        lambda client, given: stragglers.as_json(client.stragglers(given["job"], **_steps(given))),
    ),
    "step-overview": Document(
        "Step times and lateness of ranks, in few numbers",
        JOB,
        {**STEPS, "ranks": "FIRST:LAST, places in the order of ranks"},
        lambda client, given: overview_json(
            client.step_overview(given["job"], **_steps(given), **Chosen.of(given).places())
        ),
    ),
    "agents": Document(
        "Agents as the server sees them", {}, {}, lambda client, given: agents.as_json(client.agents())
    ),
    "roofline": Document(
        "Points against the roofs of where they ran",
        JOB,
        {**STEPS, "kind": "classic, hierarchical or network", "points": "role, rank, step, phase or kernel"},
        lambda client, given: rooflines.as_json(
            client.roofline(
                given["job"], given.get("kind", "classic"), given.get("points", "rank"), **_steps(given)
            )
        ),
    ),
    "breakdown": Document(
        "Parts of work, traffic and time",
        JOB,
        {**STEPS, "by": "role or rank"},
        lambda client, given: breakdowns.as_json(
            client.breakdown(given["job"], given.get("by", "role"), **_steps(given))
        ),
    ),
    "efficiency": Document(
        "MFU, HFU, and where the rest of the step goes",
        JOB,
        STEPS,
        lambda client, given: efficiencies.as_json(client.efficiency(given["job"], **_steps(given))),
    ),
    "compare": Document(
        "Two jobs side by side",
        {"first": "a job", "second": "the job that is compared with it"},
        STEPS,
        lambda client, given: job_comparisons.as_json(
            client.compare(given["first"], given["second"], **_steps(given))
        ),
    ),
    "trajectory": Document(
        "Each role over the jobs of an experiment",
        {
            "experiment": "all jobs tagged experiment=NAME",
            "over": "a tag, or nodes, ranks, ps, batch, threads",
        },
        {},
        lambda client, given: trajectories.as_json(
            client.trajectory(given["experiment"], over=given["over"])
        ),
    ),
    "machines": Document(
        "Machines with their ceilings",
        {},
        {"host": "this one only"},
        lambda client, given: machines.as_json(client.machines(given.get("host", ""), False)),
    ),
}


def problem(error: Exception, answered_s: float | None = None) -> str:
    """An error as a document. answered_s: when the question was last answered, UNIX time; None: never."""
    why = f"the page itself failed ({type(error).__name__}), and its log says where"
    found: dict[str, Any] = {"error": str(error) if isinstance(error, ClientError) else why}
    return json.dumps(found if answered_s is None else {**found, "answered_ms": int(answered_s * 1000)})


def description() -> dict[str, Any]:
    """All documents, as OpenAPI."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "roofline", "version": __version__},
        "paths": {f"/api/v1/{name}": {"get": _operation(name, one)} for name, one in ALL.items()},
    }


def _operation(name: str, one: Document) -> dict[str, Any]:
    def parameter(word: str, what: str) -> dict[str, Any]:
        text = {"type": "string"}
        return {
            "name": word,
            "in": "query",
            "required": word in one.needed,
            "description": what,
            "schema": text,
        }

    answers = {
        "200": "the document that `--format json` prints",
        "400": "the question cannot be",
        "401": "nobody is logged in",
        "404": "the server knows no such job, rank or host",
        "503": "the server does not answer",
    }
    body = {"application/json": {"schema": {"type": "object"}}}
    slower = {"description": "asked too often", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "operationId": name,
        "summary": one.summary,
        "parameters": [parameter(word, what) for word, what in {**one.needed, **one.known}.items()],
        "responses": {
            **{code: {"description": text, "content": body} for code, text in answers.items()},
            "429": slower,
        },
    }
