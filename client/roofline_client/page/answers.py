"""Questions whose answer is a page: the words and tables that the command line prints, with pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.jobs import Job
from roofline.answers.tables import TableChunk

from ..api import Client
from ..errors import ClientError, UsageError
from ..results.page import html
from ..step_range import parse_steps
from ..tables import (
    about,
    agents,
    breakdowns,
    efficiencies,
    job_comparisons,
    machines,
    rooflines,
    screen,
    stragglers,
    trajectories,
)
from . import answer_figures, details
from .live import Shown

Given = Mapping[str, str]


class Answer(NamedTuple):
    """html: words and tables, escaped; pictures: by their titles, as plotly reads them."""

    html: str
    pictures: Mapping[str, Any] = {}


EMPTY = Answer("")


class AnswerPage(NamedTuple):
    """title: with the parameters in it, as "Job {job}, in full"; fields: parameters of a form, with
    what comes before them; is_live: it is asked for again while somebody looks; hint: stands where nothing
    is asked for yet."""

    title: str
    fields: dict[str, str]
    ask: Callable[[Client, Given], Answer]
    is_live: bool = False
    hint: str = "Say which job, and press Enter."


class AnswerWatch:
    """An answer, again and again."""

    def __init__(self, one: AnswerPage, given: Given) -> None:
        self._one, self._given = one, given

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        found = self._one.ask(client, self._given)
        return json.dumps({"answer": found.html, "pictures": found.pictures}, allow_nan=False), True


def _full(client: Client, given: Given) -> Answer:
    return Answer(html(screen.in_full(client.report(given["job"], *parse_steps(given["steps"])))))


def _waits(client: Client, given: Given) -> Answer:
    return Answer(html(stragglers.as_text(client.stragglers(given["job"], *parse_steps(given["steps"])))))


def _breakdown(client: Client, given: Given) -> Answer:
    first, last = parse_steps(given["steps"])
    return Answer(html(breakdowns.as_text(client.breakdown(given["job"], first_step=first, last_step=last))))


def _efficiency(client: Client, given: Given) -> Answer:
    """Of the FLOPs that were executed: the command takes those of the model, too."""
    first, last = parse_steps(given["steps"])
    return Answer(
        html(efficiencies.as_text(client.efficiency(given["job"], first_step=first, last_step=last)))
    )


def _details(client: Client, given: Given) -> Answer:
    """Kernels, phases, collectives, traffic and what makes numbers poor."""
    first, last = parse_steps(given["steps"])
    report = client.report(given["job"], first, last)
    parts: list[Any] = []
    for points, title in (("kernel", "Kernels"), ("phase", "Phases")):
        try:
            found = client.roofline(given["job"], points=points, first_step=first, last_step=last)
        except ClientError:
            continue
        if found.points:
            parts += [Text(title, style="bold"), rooflines.as_text(found), ""]
    parts += [
        *details.collectives(_newest_steps(client, given["job"], first, last)),
        "",
        *details.traffic(report),
        *about.notes(report.notes),
    ]
    flow = answer_figures.traffic(report.parts)
    return Answer(html(Group(*parts)), {"Who sends how much to whom": flow} if flow else {})


def _newest_steps(client: Client, job: str, first: int | None, last: int | None) -> Iterator[TableChunk]:
    """The last few of those that are picked."""
    lasts = client.step_overview(job, first_step=first, last_step=last, stretches=1).lasts
    if lasts:
        yield from client.steps(job, (), max(0, lasts[-1] - details.NEWEST_STEPS + 1), lasts[-1])


def _compare(client: Client, given: Given) -> Answer:
    steps = parse_steps(given["steps"])
    jobs = [given["first"], *_named(client, given["second"])]
    found = [client.compare(jobs[0], other, *steps) for other in jobs[1:]]
    pictures: dict[str, Any] = {}
    for one in found:
        if (parts := answer_figures.parts_compared(one)) is not None:
            pictures[f"Where a step goes: {one.first} and {one.second}"] = parts
    planes = [client.roofline(job, points="role", first_step=steps[0], last_step=steps[1]) for job in jobs]
    pictures["Rooflines by role"] = answer_figures.rooflines_compared(planes, jobs)
    return Answer("".join(html(job_comparisons.as_text(one)) for one in found), pictures)


def _named(client: Client, text: str) -> list[str]:
    """Jobs with commas between them; a name may have blanks, and commas where the server knows it so.
    Raises UsageError."""
    if "," not in text or any(one.job == text for one in client.jobs()):
        return [text]
    if not (found := list(filter(None, map(str.strip, text.split(","))))):
        raise UsageError(f"{text!r} names no job to compare with")
    return found


def _trajectory(client: Client, given: Given) -> Answer:
    found = client.trajectory(given["experiment"], over=given["over"])
    return Answer(html(trajectories.as_text(found)), {"Trajectories": answer_figures.trajectory(found)})


def _machines(client: Client, given: Given) -> Answer:
    found = client.machines(given["host"], bool(given["host"]))
    doubts = machines.doubts(found)
    folded = f"<details><summary>what a ? stands for</summary>{html(Group(*doubts))}</details>"
    rest = html(Group(machines.LEGEND, "", *details.held_against(found)))
    return Answer(html(machines.rows(found)) + folded * bool(doubts) + rest)


def _agents(client: Client, given: Given) -> Answer:
    return Answer(html(agents.as_text(client.agents())))


STEPS = {"job": "job", "steps": "steps (FIRST:LAST, all; empty: the steady ones)"}
ALL = {
    "full": AnswerPage("Job {job}, in full", STEPS, _full),
    "details": AnswerPage("Job {job}: kernels, collectives, traffic, data quality", STEPS, _details),
    "stragglers": AnswerPage("Job {job}: who waits for whom", STEPS, _waits),
    "breakdown": AnswerPage("Job {job}: what a step is made of", STEPS, _breakdown),
    "efficiency": AnswerPage("Job {job}: MFU, and where the rest of a step goes", STEPS, _efficiency),
    "compare": AnswerPage(
        "Compare jobs {first} and {second}",
        {
            "first": "a job",
            "second": "compared with it (one, or several: 41, 42)",
            "steps": "steps (FIRST:LAST; empty: the steady ones)",
        },
        _compare,
        is_live=True,
        hint="Two jobs or more, side by side: their settings, speed, accounts and rooflines.",
    ),
    "trajectory": AnswerPage(
        "Experiment {experiment} over {over}",
        {"experiment": "jobs tagged experiment=", "over": "over (nodes, ranks, ps, batch, threads, a tag)"},
        _trajectory,
        is_live=True,
        hint="Jobs that ran with `roofline-agent run --experiment NAME`, in the order of what was varied.",
    ),
    "machines": AnswerPage("Machines and their ceilings", {"host": "history of host"}, _machines),
    "agents": AnswerPage("Agents", {}, _agents, is_live=True),
}
OPTIONAL = ("steps", "host")
JOBS = ("job", "first", "second")
RESOURCES = ("nodes", "ranks", "ps", "batch", "threads")
MOST_OFFERED = 200


def offered(fields: Iterable[str], jobs: Sequence[Job]) -> dict[str, list[str]]:
    """What a field may be filled with, by its name."""
    names = [one.job for one in jobs]
    tags = {name for one in jobs for name in one.tags} - {"experiment"}
    known = {
        "job": names,
        "first": names,
        "second": names,
        "experiment": sorted({one.tags["experiment"] for one in jobs if "experiment" in one.tags}),
        "over": [*RESOURCES, *sorted(tags)],
        "host": sorted({host for one in jobs for host in one.hosts}),
    }
    return {name: known[name][:MOST_OFFERED] for name in fields if name in known}


def given(one: AnswerPage, asked: Mapping[str, str]) -> dict[str, str]:
    """What the page needs of what was asked for; "" for what was not. A job's name may begin with a blank."""
    found = {name: asked.get(name, "") for name in one.fields}
    return {name: text if name in JOBS else text.strip() for name, text in found.items()}


def is_complete(one: AnswerPage, given: Given) -> bool:
    """Whether all is given that the question needs."""
    return all(given.get(name) for name in one.fields if name not in OPTIONAL)
