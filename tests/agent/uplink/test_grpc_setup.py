"""What gRPC is asked for stays with the agent's own process, and this gRPC knows it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fakes import clean_environ

LOADED = """
import os
from roofline_agent.uplink import exporter
exporter.grpc.insecure_channel("127.0.0.1:1").close()
print(os.environ.get("GRPC_EXPERIMENTS"))
"""


@pytest.mark.parametrize(("given", "left"), [({}, "None"), ({"GRPC_EXPERIMENTS": ""}, "")])
def test_children_inherit_what_the_user_has_set_and_no_more(given: dict[str, str], left: str) -> None:
    environ = {name: value for name, value in clean_environ().items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env={**environ, **given}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == left
    assert done.stderr == "", "a gRPC that does not know an experiment prints a line"
