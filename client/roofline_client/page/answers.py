"""Questions whose answer is shown once, as a page: the words and tables that the command line prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..api import Client
from ..results.page import html
from ..step_range import parse_steps
from ..tables import breakdowns, job_comparisons, machines, screen, stragglers, trajectories


class AnswerPage(NamedTuple):
    """title: with the parameters in it, as "Job {job}, in full"; fields: parameters of a form, with
    what stands before them; ask: the answer as HTML."""

    title: str
    fields: dict[str, str]
    ask: Callable[[Client, Mapping[str, str]], str]


def _full(client: Client, given: Mapping[str, str]) -> str:
    return html(screen.in_full(client.report(given["job"], *parse_steps(given.get("steps", "")))))


def _waits(client: Client, given: Mapping[str, str]) -> str:
    return html(stragglers.as_text(client.stragglers(given["job"], *parse_steps(given.get("steps", "")))))


def _breakdown(client: Client, given: Mapping[str, str]) -> str:
    first, last = parse_steps(given.get("steps", ""))
    return html(breakdowns.as_text(client.breakdown(given["job"], first_step=first, last_step=last)))


def _compare(client: Client, given: Mapping[str, str]) -> str:
    steps = parse_steps(given.get("steps", ""))
    return html(job_comparisons.as_text(client.compare(given["first"], given["second"], *steps)))


def _trajectory(client: Client, given: Mapping[str, str]) -> str:
    return html(trajectories.as_text(client.trajectory(given["experiment"], over=given["over"])))


def _machines(client: Client, given: Mapping[str, str]) -> str:
    return html(machines.as_text(client.machines("", False)))


STEPS = {"job": "job", "steps": "steps (FIRST:LAST, all; empty: the steady ones)"}
ALL = {
    "full": AnswerPage("Job {job}, in full", STEPS, _full),
    "stragglers": AnswerPage("Job {job}: who waits for whom", STEPS, _waits),
    "breakdown": AnswerPage("Job {job}: what a step is made of", STEPS, _breakdown),
    "compare": AnswerPage(
        "{first} and {second}",
        {
            "first": "a job",
            "second": "compared with it",
            "steps": "steps (FIRST:LAST; empty: the steady ones)",
        },
        _compare,
    ),
    "trajectory": AnswerPage(
        "Experiment {experiment} over {over}",
        {"experiment": "jobs tagged experiment=", "over": "over (nodes, ranks, ps, batch, threads, a tag)"},
        _trajectory,
    ),
    "machines": AnswerPage("Machines and their ceilings", {}, _machines),
}
OPTIONAL = "steps"


def is_complete(one: AnswerPage, given: Mapping[str, str]) -> bool:
    """Whether all is given that the question needs."""
    return all(given.get(name) for name in one.fields if name != OPTIONAL)
