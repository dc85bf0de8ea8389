"""Options that the commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from .. import access
from ..errors import ConfigError

DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="ROOFLINE_DATA", help="directory of all data [XDG state directory]"),
]


def data_of(data: Path | None, before: Path | None = None) -> Path:
    """The directory that is meant: `roofline-server --data BEFORE COMMAND --data DATA`."""
    from ..serve import default_data

    return data or before or default_data(os.environ)


def access_of(data: Path | None, before: Path | None) -> Path:
    """Its folder of who may do what. Raises ConfigError where `init` was never run."""
    found = data_of(data, before)
    if not access.is_set_up(found):
        raise ConfigError(
            f"{found} has no TLS and no tokens that this user may see: run `roofline-server init` as the "
            "user of the server"
        )
    return found / access.FOLDER
