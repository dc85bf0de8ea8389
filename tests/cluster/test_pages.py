"""Pages of docs/cluster that need no scheduler are typed into a shell from top to bottom, on three nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..end_to_end.conftest import REPOSITORY
from . import nodes
from .pages import script_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2400)]
PAGES = REPOSITORY / "docs" / "cluster"
SECONDS = 1800  # for a page; most is installing, which takes a quarter of an hour on a busy machine
FINISHED = "finished (exit 0)"
# Where one may be, by which module, and what of examples/horovod it can train.
HOROVODS = (
    ("ROOFLINE_HOROVOD_PYTHON", "horovod.torch", "train_torch.py"),
    ("ROOFLINE_TF_PYTHON", "horovod.tensorflow", "train_keras.py"),
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that pip may ask for on the head, which has no Internet here."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder]
    wanted = [f"{REPOSITORY}[server,client]", "hatchling"]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=900)
    if done.returncode:
        pytest.skip(f"wheels cannot be had here: {done.stderr[-300:]}")
    return folder


@pytest.fixture
def cluster(tmp_path: Path, wheels: Path) -> Iterator[nodes.Nodes]:
    if os.getuid() != 0:
        pytest.skip("takes root")
    if missing := nodes.missing_programs():
        pytest.skip(f"install openssh-server and iproute2: {', '.join(missing)} not found")
    if not nodes.are_allowed():
        pytest.skip("networks and mounts cannot be made here")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    made = nodes.Nodes(tmp_path, PIP_NO_COMPILE="1", **pip)
    try:
        yield made
    finally:
        made.stop()


def python_with(module: str, variable: str) -> str:
    """The Python that a variable names, if it has a module; else nothing."""
    python = os.environ.get(variable, "")
    found = python and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0
    return python if found else ""


def needed(module: str, variable: str) -> str:
    return python_with(module, variable) or pytest.skip(f"{variable} names no Python with {module}")


def follow(
    cluster: nodes.Nodes, page: str, before: dict[str, str], jobs: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Type the page; the reports of these jobs, asked before its last section stops all."""
    work, stop, last = script_of(PAGES / page, before).rpartition("echo '== Stop'")
    ask = [f"roofline-client report {job} --steps all --format json > ~/{job}.json" for job in jobs]
    cluster.start()
    cluster.run("\n".join([work, *ask, stop + last]), REPOSITORY, SECONDS)
    return {job: json.loads((cluster.home("head") / f"{job}.json").read_text()) for job in jobs}


def steps(report: dict[str, Any]) -> dict[str, float | None]:
    return {r["rank"]: r["summary"]["values"]["steps"]["value"] for r in report["ranks"]}


def assert_measured(report: dict[str, Any], state: str, ranks: dict[str, int]) -> None:
    """Steps of all ranks, one on each node, next to ceilings that were measured there."""
    assert (report["state"], steps(report)) == (state, ranks)
    assert sorted(rank["host"] for rank in report["ranks"]) == ["n1", "n2"]
    roofs = [(roof["host"], line["provenance"]) for roof in report["roofs"] for line in roof["lines"]]
    measured = {host for host, provenance in roofs if provenance == "measured"}
    assert measured == {"n1", "n2"}
    assert report["verdict"]["headline"]


def test_bare_ssh(cluster: nodes.Nodes) -> None:
    torch = needed("torch", "ROOFLINE_TORCH_PYTHON")
    tensorflow = python_with("tensorflow", "ROOFLINE_TF_PYTHON")
    servers = f"PYTHON={tensorflow}" if tensorflow else ""
    before = {"": f"PYTHON={torch}", "TensorFlow's parameter servers": servers}
    reports = ["ssh-ddp", "ssh-ps"] if tensorflow else ["ssh-ddp"]
    found = follow(cluster, "ssh.md", before, reports)
    assert_measured(found["ssh-ddp"], FINISHED, {"ddp:0": 100, "ddp:1": 100})
    if tensorflow:
        of_rank = steps(found["ssh-ps"])
        assert of_rank["worker:0"] + of_rank["worker:1"] == 120 and len(of_rank) == 4


def with_horovod(built: str) -> str:
    """Variables of a Python whose Horovod was built with this, and of what it trains; "": there is none."""
    for variable, module, training in HOROVODS:
        asked = f"import {module} as hvd; raise SystemExit(not hvd.{built}_built())"
        python = os.environ.get(variable, "")
        if python and subprocess.run([python, "-c", asked], capture_output=True).returncode == 0:
            return f"PYTHON={python} TRAINING={training}"
    return ""


def test_mpi(cluster: nodes.Nodes) -> None:
    torch = needed("torch", "ROOFLINE_TORCH_PYTHON")
    if not shutil.which("mpirun"):
        pytest.skip("install openmpi-bin: mpirun not found")
    cluster.variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    over = {"gloo": "Horovod by horovodrun", "mpi": "Horovod by mpirun"}
    before = {title: with_horovod(built) for built, title in over.items()}
    jobs = [f"{built}-horovod" for built, title in over.items() if before[title]]
    found = follow(cluster, "mpi.md", {"": f"PYTHON={torch}", **before}, ["mpi-ddp", *jobs])
    assert_measured(found["mpi-ddp"], FINISHED, {"ddp:0": 100, "ddp:1": 100})
    for job in jobs:
        assert_measured(found[job], FINISHED, {"horovod:0": 60, "horovod:1": 60})


def test_ray(cluster: nodes.Nodes, tmp_path: Path) -> None:
    python = needed("ray.train.torch", "ROOFLINE_RAY_PYTHON")
    cluster.own.append(Path("/tmp/ray"))
    (tmp_path / "shared").mkdir()
    found = follow(cluster, "ray.md", {"": f"PYTHON={python} SHARED={tmp_path}/shared"}, ["last"])
    assert_measured(found["last"], "ended (exit codes not known)", {"ddp:0": 100, "ddp:1": 100})
