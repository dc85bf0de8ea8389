"""What tests of the sender share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import roofline_step
from roofline_step.packets import FACT

from tests.fakes import FakeAgent, clean_environ

AGENT_FOLDER = Path(roofline_step.__file__).parents[1]

BEGIN, END, BORDER, PHASE_BEGIN, PHASE_END = range(1, 6)


def run(code: str, path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    return subprocess.run(
        [sys.executable, *flags, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )


STEP = [(BEGIN, 1, None, 1, None, False), (END, 1, None, 2, None, False)]

SPAN = ("phase.input", 1, 2, None, 1)


def packets(agent: FakeAgent, count: int) -> list[bytes]:
    return [data for _, data in agent.receive(count)]


def facts(agent: FakeAgent, count: int) -> list[str]:
    return [data[len(FACT) :].decode() for data in packets(agent, count)]
