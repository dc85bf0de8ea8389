"""Help of every command of the three programs, on a terminal of 80 columns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from roofline_agent.cli import app as agent
from roofline_client.cli import app as client
from roofline_server.cli import app as server

PROGRAMS = {"roofline-agent": agent, "roofline-client": client, "roofline-server": server}


def commands_of(name: str) -> Iterator[tuple[str, Any, str]]:
    """(words, command, its help as it is shown) of the program and of all its commands."""
    left: list[tuple[str, Any]] = [(name, typer.main.get_command(PROGRAMS[name]))]
    while left:
        words, command = left.pop()
        left += [(f"{words} {sub}", one) for sub, one in getattr(command, "commands", {}).items()]
        yield words, command, command.get_help(typer.Context(command, info_name=words, terminal_width=80))


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_stay_in_one_line_to_be_copied(name: str) -> None:
    seen = 0
    for words, command, shown in commands_of(name):
        lines = f"{inspect.cleandoc(command.help or '')}\n{command.epilog or ''}".splitlines()
        examples = [line.strip() for line in lines if line.startswith("  ")]
        broken = [example for example in examples if f"    {example}" not in shown.splitlines()]
        assert not broken, f"{words} --help breaks {broken}"
        seen += len(examples)
    assert seen > 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_list_of_commands_is_not_cut(name: str) -> None:
    for words, _, shown in commands_of(name):
        commands = shown.partition("\nCommands:\n")[2].splitlines()
        assert not [line for line in commands if line.endswith("...")], words
