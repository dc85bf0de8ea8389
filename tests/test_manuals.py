"""The manual pages of the Debian package: what `--help` shows, so that examples can be copied from them."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[1] / "deploy" / "debian" / "manuals.py"


def made(program: str) -> dict[str, str]:
    spec: Any = importlib.util.spec_from_file_location("manuals", PATH)
    manuals = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manuals)
    return dict(manuals.pages(program, "0.1.0"))


def shown(page: str) -> list[str]:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=80n"]
    found = subprocess.run(command, input=page, capture_output=True, text=True, check=True)
    assert found.stderr == ""
    return found.stdout.splitlines()


def test_each_command_has_a_page() -> None:
    pages = made("roofline-client")
    assert {"roofline-client", "roofline-client-report", "roofline-client-bench-net"} <= set(pages)
    assert all(page.startswith(f".TH {name.upper()} 1") for name, page in pages.items())


def test_examples_stay_on_lines_of_their_own() -> None:
    lines = [line.strip() for line in shown(made("roofline-agent")["roofline-agent-join"])]
    assert "roofline-agent join head:7642 - <<< roofline1.PdUE...." in lines
    assert "roofline-agent join head:7642 - < token" in lines


def test_option_and_what_it_does_are_one_paragraph() -> None:
    lines = [line.strip() for line in shown(made("roofline-agent")["roofline-agent"])]
    at = lines.index("--sources <str>")
    assert lines[at + 1] == "only these sources, comma-separated"


@pytest.mark.parametrize("program", ["roofline-agent", "roofline-server", "roofline-client"])
def test_pages_are_read_without_complaint(program: str) -> None:
    shown("".join(made(program).values()))
