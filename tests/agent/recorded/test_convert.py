"""Reports of Nsight Compute, read by a stand-in for its own command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.convert import MAGIC, opened
from roofline_agent.recorded.errors import NotReadable, NotText
from roofline_agent.recorded.ncu import reader as ncu
from roofline_agent.recorded.text import Text

WIDE = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\\n"","","","us"\\n"0","7","k","4.5"\\n'


@pytest.fixture
def report(tmp_path: Path) -> str:
    path = tmp_path / "my report.ncu-rep"
    path.write_bytes(MAGIC + bytes(100))
    return str(path)


def start(report: str, environ: dict[str, str]) -> IO[bytes]:
    stream = open(report, "rb")  # noqa: SIM115  # handed over
    return opened(stream, report, environ)


def tool(folder: Path, script: str) -> dict[str, str]:
    """An environment whose `ncu` is this shell script."""
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def read(report: str, environ: dict[str, str]) -> tuple[list[str], str]:
    """Names of the kernels and the warnings."""
    found = Collector()
    try:
        with start(report, environ) as stream:
            ncu.read(Text(report, stream), found)
        return [kernel.name for kernel in found.kernels], str(found.warnings)
    finally:
        found.close()


def test_a_report_is_read_through_its_tool(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, f"echo \"$@\" > {tmp_path}/arguments; printf '{WIDE}'")
    kernels, warnings = read(report, environ)
    assert (kernels, warnings) == (["k"], "[]")
    assert (tmp_path / "arguments").read_text().strip() == f"--import {report} --csv --page raw"


def test_a_named_tool_comes_first(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, f"printf '{WIDE}'") | {"PATH": "/nowhere", "ROOFLINE_NCU": str(tmp_path / "ncu")}
    # A script without a path of its own finds printf in the shell.
    assert read(report, environ)[0] == ["k"]


def test_without_the_tool_the_command_to_run_elsewhere_is_said(report: str, tmp_path: Path) -> None:
    with pytest.raises(NotText, match=r"ncu --import '.*my report.ncu-rep' --csv --page raw > report.csv"):
        start(report, {"PATH": str(tmp_path)})


def test_a_tool_that_cannot_be_run_is_an_error(report: str) -> None:
    with pytest.raises(NotReadable, match="/nowhere/ncu cannot be run"):
        start(report, {"ROOFLINE_NCU": "/nowhere/ncu"})


def test_a_tool_that_fails_at_once_is_an_error_with_its_last_words(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, "echo first >&2; echo 'report version 99 is too new' >&2; exit 3")
    with pytest.raises(NotReadable, match="failed with 3: report version 99 is too new"):
        start(report, environ)


def test_a_tool_that_fails_later_leaves_what_it_said_before(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, f"printf '{WIDE}'; echo 'out of memory' >&2; exit 1")
    kernels, warnings = read(report, environ)
    assert kernels == ["k"]
    assert "failed with 1: out of memory" in warnings


def test_the_child_ends_when_nobody_reads_on(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, f"echo $$ > {tmp_path}/pid; while :; do echo '==PROF== more'; done")
    stream = start(report, environ)
    assert stream.read(20)
    stream.close()
    child = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_much_noise_on_the_error_side_blocks_nothing(report: str, tmp_path: Path) -> None:
    environ = tool(tmp_path, f"head -c 300000 /dev/zero | tr '\\\\0' x >&2; printf '{WIDE}'")
    assert read(report, environ)[0] == ["k"]


def test_other_files_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "short"
    for content in (b"", b"NV", b"some text\n"):
        path.write_bytes(content)
        with opened(open(path, "rb"), str(path), {"PATH": ""}) as stream:
            assert stream.read() == content
