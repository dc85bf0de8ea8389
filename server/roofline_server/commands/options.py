"""Options that the commands share."""

from __future__ import annotations

import math
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from .. import access
from ..data_directory import default_data
from ..errors import ConfigError, Unavailable

CENTURY_DAYS, EXABYTE_GB = 36_500.0, 1e9
Number = TypeVar("Number", float, "float | None")


def at_most(most: float, or_inf: bool = False) -> Callable[[Number], Number]:
    """Checks an option; nan is refused too, which not every bound of typer's does. or_inf: so is not inf."""

    def check(given: Number) -> Number:
        if given is not None and not (given <= most or (or_inf and given == math.inf)):
            raise typer.BadParameter(f"{given:g} must be at most {most:g}{', or inf' if or_inf else ''}")
        return given

    return check


KeepDaysOption = Annotated[
    float | None,
    typer.Option(
        envvar="ROOFLINE_KEEP_DAYS",
        min=0.0,
        callback=at_most(CENTURY_DAYS, or_inf=True),
        help="days to keep raw data after a job ends; step deltas stay 4 times, reports 16 times as long; "
        "inf: all [all]",
        show_default=False,
    ),
]
KeepGbOption = Annotated[
    float | None,
    typer.Option(
        envvar="ROOFLINE_KEEP_GB",
        min=0.0,
        callback=at_most(EXABYTE_GB, or_inf=True),
        help="at most this many GB (1e9 byte) of data; beyond that the oldest are removed; 0 or inf: no "
        "limit [80 % of the file system]",
        show_default=False,
    ),
]
KeepTaggedOption = Annotated[
    list[str] | None,
    typer.Option(
        envvar="ROOFLINE_KEEP_TAGGED",
        help="NAME or NAME=VALUE: jobs with this tag stay whole; can be repeated",
    ),
]
DataOption = Annotated[
    Path | None,
    # Not checked here: what cannot be read is another exit code than a wrong option.
    typer.Option(
        "--data", envvar="ROOFLINE_DATA", readable=False, help="data directory [XDG state directory]"
    ),
]
CatalogOption = Annotated[
    str, typer.Option(envvar="ROOFLINE_CATALOG", help="SQLAlchemy URL of the catalog [SQLite in --data]")
]
FORMATS = ("text", "json")


def _format(given: str) -> str:
    if given not in FORMATS:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(FORMATS)}")
    return given


FormatOption = Annotated[str, typer.Option("--format", callback=_format, help=" or ".join(FORMATS))]


def data_of(data: Path | None, before: Path | None = None) -> Path:
    """The directory that is meant: `roofline-server --data BEFORE COMMAND --data DATA`."""
    return data or before or default_data(os.environ)


def readable_data_of(data: Path | None, before: Path | None = None) -> Path:
    """The directory that is meant. Raises Unavailable where this user may not look into it."""
    found = data_of(data, before)
    try:
        os.stat(os.path.join(found, "."))
    except PermissionError as error:
        raise Unavailable(
            f"cannot read the data directory {found}: {error.strerror}; run this as the user of the server"
        ) from None
    except OSError:
        pass  # there is none: each command says what that means
    return found


def refuse_root_elsewhere(root: Path) -> None:
    """Root would leave files there that the server, which runs as a user of its own, could not open.

    Raises Unavailable for root where another user owns the data.
    """
    inbox = root / "inbox.db"  # the folder itself may be a mounted volume, which is root's
    owner = (inbox if inbox.exists() else root).stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        return
    try:
        user = pwd.getpwuid(owner).pw_name
    except KeyError:
        user = f"#{owner}"  # as sudo takes a number
    raise Unavailable(
        f"the data in {root} belong to user {user}: run this as that user (`sudo -u '{user}' ...`), because "
        "the server could not open files that root makes there"
    )


def access_of(data: Path | None, before: Path | None) -> Path:
    """Its folder of who may do what. Raises ConfigError where `init` was never run."""
    found = data_of(data, before)
    if not access.is_set_up(found):
        raise ConfigError(
            f"{found} has no TLS and no tokens that this user may see: run `roofline-server init` as the "
            "user of the server"
        )
    return found / access.FOLDER
