"""`roofline-server token`: make, list and revoke."""

from __future__ import annotations

import datetime
import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from ..access.audit import Audit
from ..access.tokens import Token, Tokens
from ..errors import BadRequest
from ..records import Limit
from .init import DAYS, address, join_token
from .options import CENTURY_DAYS, DataOption, FormatOption, access_of, at_most, data_of

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tokens: whoever holds one may do what its role allows. Changes take effect within 2 s, without "
    "a restart.\n\n"
    "Roles: agent (send data), reader (ask), admin (ask, measure the network between nodes, trace steps).\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server token new                              for nodes to join\n"
    "  roofline-server token new --role reader                for one user to join\n"
    "  roofline-server token new --role reader --user alice   sees only jobs of alice\n"
    "  roofline-server token list\n"
    "  roofline-server token revoke 1f0c22aa                  ends its holder's calls\n\n"
    "Exit codes: 0 done, 1 no such token, 2 usage, 3 no `roofline-server init` before.",
)


@app.command(
    "new",
    help="Print a token for joining, for nodes or for a user.",
)
def new(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="agent, reader or admin")] = "agent",
    name: Annotated[str, typer.Option(help="for whom, as `token list` shows it")] = "",
    days: Annotated[
        float,
        typer.Option(min=0.0, callback=at_most(CENTURY_DAYS), help="days for which it can be used to join"),
    ] = DAYS,
    once: Annotated[
        bool | None,
        typer.Option("--once/--many", help="usable once or many times [default: many for agents, else once]"),
    ] = None,
    user: Annotated[str | None, typer.Option(help="a reader sees only jobs that this user submitted")] = None,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="a reader sees only jobs with such names, e.g. 'lab-*'"),
    ] = None,
    data: DataOption = None,
) -> None:
    if "" in (user, jobs):
        raise typer.BadParameter("an empty limit would be none: leave it out for a reader of all jobs")
    if not days:
        raise typer.BadParameter("a token for 0 days could never be used to join", param_hint="--days")
    folder = access_of(data, context.obj)
    single = role != "agent" if once is None else once
    limit = Limit(user or "", jobs or "")
    try:
        token, secret = Tokens(folder).new(
            role, name or limit.user, joins=True, once=single, days=days, limit=limit
        )
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from None
    facts = limit._asdict() if any(limit) else {}
    Audit(folder).add("token", token=token.id, role=role, name=token.name, joins=True, **facts)
    program = "roofline-agent" if role == "agent" else "roofline-client"
    # Not as an argument, which all users of a machine see.
    where = address(data_of(data, context.obj))
    print(f"{program} join {where} - <<< {join_token(folder, secret)}")


@app.command("list", help="Show all tokens; their secrets are not kept.")
def show(
    context: typer.Context,
    output: FormatOption = "text",
    data: DataOption = None,
) -> None:
    tokens, now = Tokens(access_of(data, context.obj)).all(), time.time()
    if output == "json":
        rows = [{**asdict(token), "state": token.state(now)} for token in tokens]
        print(json.dumps([{key: row[key] for key in row if key != "digest"} for row in rows], indent=2))
        return
    heads = ("id", "role", "state", "made", "ends", "sees", "name")
    rows_of_text = [heads, *(_row(token, now) for token in tokens)]
    widths = [max(len(row[at]) for row in rows_of_text) for at in range(len(heads))]
    for row in rows_of_text:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command(
    "revoke", help="Revoke a token. Whoever joined with it has a token of their own: revoke that too."
)
def revoke(
    context: typer.Context,
    number: Annotated[str, typer.Argument(metavar="ID", help="as `token list` shows it")],
    data: DataOption = None,
) -> None:
    folder = access_of(data, context.obj)
    token = Tokens(folder).revoke(number)
    Audit(folder).add("revoked", token=token.id, role=token.role, name=token.name)
    print(f"token {token.id} ({token.role} {token.name}) is revoked")


@app.command(
    "publish",
    help="Keep tokens in Secrets of a Kubernetes namespace.\n\n"
    "Run it in a pod. It keeps two tokens in Secrets of the pod's namespace: one for nodes to join, one to "
    "read /metrics. The Secrets must exist, and the pod's service account must be allowed to get and patch "
    "them (deploy/kubernetes). A valid token stays; otherwise a new one replaces it, and the old one is "
    "revoked.\n\n"
    "Example:\n\n"
    "\b\n"
    "  roofline-server token publish --join roofline-join\n\n"
    "Exit codes: 0 done, 3 no pod, or no `roofline-server init` before, 6 a Secret is not available.",
)
def publish(
    context: typer.Context,
    join: Annotated[
        str, typer.Option(metavar="SECRET", help="Secret that gets the join token")
    ] = "roofline-join",
    metrics: Annotated[
        str, typer.Option(metavar="SECRET", help="Secret that gets the token for /metrics and the authority")
    ] = "roofline-metrics",
    data: DataOption = None,
) -> None:
    from ..access import publishing, secrets

    folder = access_of(data, context.obj)
    cluster = secrets.Secrets(secrets.of_pod())
    for name, made in (
        (join, publishing.join_token(folder, cluster, join)),
        (metrics, publishing.reader_token(folder, cluster, metrics)),
    ):
        if made is not None:
            Audit(folder).add("token", token=made.id, role=made.role, joins=made.joins, secret=name)
        print(f"Secret {name}: {'the token in it is good' if made is None else f'token {made.id} is new'}")


def _row(token: Token, now: float) -> tuple[str, ...]:
    role = f"{token.role}, to join" + (" once" if token.once else "") if token.joins else token.role
    state, made, ends = token.state(now), _day(token.created), _day(token.expires)
    return token.id, role, state, made, ends, _sees(token), token.name


def _sees(token: Token) -> str:
    """Which jobs, in words."""
    if token.role == "agent":
        return "-"
    parts = [f"of {token.user}"] if token.user else []
    return ", ".join([*parts, token.jobs] if token.jobs else parts) or "all"


def _day(moment: float | None) -> str:
    if moment is None:
        return "-"
    try:
        return datetime.datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # before --days had a bound a token could last so long
        return f"after {datetime.MAXYEAR}"
