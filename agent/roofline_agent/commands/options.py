"""What several commands share: the settings given before the command, the choice of a format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from ..config import Config


class GivenSettings(NamedTuple):
    """`roofline-agent SETTINGS COMMAND`: the file and the flags; None is a flag that was not given."""

    file: Path | None
    flags: Mapping[str, Any]


def load_config(context: typer.Context, **own: Any) -> Config:
    """The agent's settings for a command. own: flags of the command's own, which go before those in front of
    it; None: not given. Raises ConfigError."""
    from ..config import load

    given: GivenSettings = context.obj
    flags = {**given.flags, **{name: value for name, value in own.items() if value is not None}}
    return load(flags, os.environ, given.file)


def check_format(output: str) -> None:
    """Raises the usage error for a --format that is neither text nor json."""
    if output not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--format")


def silence_grpc() -> None:
    """gRPC's C core would print its own view of every error beside ours. To be called before it is loaded."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
