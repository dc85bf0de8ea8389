"""What shells complete: jobs, ranks, roles and experiments, as the server knows them now. A shell waits, so
the server has a second, and where it does not answer nothing is offered and nothing is said."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import typer

TIMEOUT_S = 1.0
MOST = 200  # a shell shows them all
# Users choose names, and zsh evaluates what it is offered: anything else is not offered.
SAFE = re.compile(r"[\w./:@%+=,][\w./:@%+=,-]*")
SAFE_HELP = re.compile(r"[\w./:@%+=,() -]*")


def jobs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest first, each with how it is."""
    found = sorted(_ask(context, lambda client: client.jobs()), key=lambda job: -job.begin_ns)
    states = {str(job.job): str(job.state) for job in found}
    names = _matching([*states, "last"], incomplete)
    helps = {**states, "last": "the newest"}
    return [(name, helps[name] if SAFE_HELP.fullmatch(helps[name]) else "") for name in names]


def experiments(context: typer.Context, incomplete: str) -> list[str]:
    found = _ask(context, lambda client: client.jobs())
    return _matching((job.tags.get("experiment", "") for job in found), incomplete)


def ranks(context: typer.Context, incomplete: str) -> list[str]:
    return _matching((one.rank for one in _ranks_of_job(context)), incomplete)


def roles(context: typer.Context, incomplete: str) -> list[str]:
    return _matching((one.rank.rpartition(":")[0] for one in _ranks_of_job(context)), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that begin so, each once."""
    wanted = (name for name in dict.fromkeys(names) if name.startswith(incomplete))
    return [name for name in wanted if SAFE.fullmatch(name)][:MOST]


def _ranks_of_job(context: typer.Context) -> Iterable[Any]:
    """Of the job that stands before them on the line, else none."""
    # An argument before an option that lacks its value is parsed no further.
    given = context.params.get("job") or context.params.get("which") or context.args
    named = given[0] if isinstance(given, list | tuple) and given else given
    if not named or named == "last":  # two questions would take twice as long
        return []
    return _ask(context, lambda client: client.report(str(named)).ranks)


def _ask(context: typer.Context, question: Callable[[Any], Iterable[Any]]) -> Iterable[Any]:
    server = context.params.get("server") or os.environ.get("ROOFLINE_SERVER", "")
    # Whatever is wrong, a line that is being typed is no place to say it.
    with suppress(Exception):
        from ..api import connect

        with connect(server, timeout=TIMEOUT_S) as client:
            return question(client)
    return []
