"""Programs of Weights & Biases, TensorBoard and a collector read what `roofline-client publish` has sent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import free_port

from ..end_to_end.conftest import Site, wait_until

# On a busy machine these packages take minutes to start.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PYTHON = os.environ.get("ROOFLINE_TRACKERS_PYTHON", "")

# An offline run is a LevelDB log behind 7 bytes: blocks of 32 KiB, in them records: checksum, length, kind
# (whole, first, middle, last part), data (leveldb's doc/log_format.md).
READ_RUN = """
import json, sys
from wandb.proto import wandb_internal_pb2 as proto
data, at, part, found = open(sys.argv[1], "rb").read(), 7, b"", {"summary": {}, "config": {}, "files": []}
while at < len(data):
    left = 32768 - at % 32768
    if left < 7:
        at += left
        continue
    size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
    part, at = part + data[at + 7 : at + 7 + size], at + 7 + size
    if kind in (1, 4):
        record, part = proto.Record.FromString(part), b""
        name = record.WhichOneof("record_type")
        if name == "summary":
            found["summary"].update({u.key: json.loads(u.value_json) for u in record.summary.update})
        elif name == "run":
            found.update({"project": record.run.project, "id": record.run.run_id})
            found["config"].update({u.key: json.loads(u.value_json) for u in record.run.config.update})
        elif name == "files":
            found["files"] += [file.path for file in record.files.files]
        elif name == "history":
            keys = [item.key or "/".join(item.nested_key) for item in record.history.item]
            found.setdefault("logged", []).extend(keys)
        elif name == "exit":
            found["exit"] = record.exit.exit_code
print(json.dumps(found))
"""
READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1], size_guidance={"images": 0, "scalars": 0, "tensors": 0})
log.Reload()
tags = log.Tags()
print(json.dumps({
    "scalars": {tag: [(e.wall_time, e.value) for e in log.Scalars(tag)] for tag in tags["scalars"]},
    "images": {tag: [i.width for i in log.Images(tag)] for tag in tags["images"]},
    "texts": {tag: log.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags["tensors"]},
}))
"""


class Published:
    """A server with one job that is over, and a client whose environment has the trackers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.server()
        site.agent()
        assert site.rank("worker", 0, 40, 0.02, 8).wait(60) == 0
        wait_until(lambda: site.steps("worker:0") == 40, what="all steps are known")

    def publish(self, *words: Any, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, "-m", "roofline_client", "publish", "42", *map(str, words)]
        clean = {k: v for k, v in self.site.environ.items() if not k.startswith(("WANDB_", "PYTHONPATH"))}
        home = {"HOME": str(self.site.folder)}
        return subprocess.run(
            command,
            env={**clean, **home, **environ},
            cwd=self.site.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    if not PYTHON:
        pytest.skip("ROOFLINE_TRACKERS_PYTHON names no Python with Weights & Biases and TensorBoard")
    site = Site(tmp_path_factory.mktemp("trackers"))
    try:
        yield Published(site)
    finally:
        site.stop()


def read(code: str, path: Path) -> Any:
    done = subprocess.run([PYTHON, "-c", code, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_offline_run_of_wandb_holds_verdict_numbers_and_pictures(
    published: Published, tmp_path: Path
) -> None:
    ids = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        done = published.publish("--wandb", "trials", "--wandb-dir", folder)
        assert done.returncode == 0, done.stderr
        (place,) = (folder / "wandb").glob("offline-run-*")
        assert done.stdout.split() == ["job", "42", "is", "run", str(place), "of", "trials"]
        (log,) = place.glob("*.wandb")
        run = read(READ_RUN, log)
        ids.append(run["id"])
    assert ids[0] == ids[1], "published again, it is the same run"
    assert (run["project"], run["exit"]) == ("trials", 0)
    assert run["config"]["roofline.state"] == "finished (exit 0)"
    assert (
        0.015 < run["summary"]["roofline/step_median_seconds"] < 0.5 and run["summary"]["roofline/headline"]
    )
    assert "roofline/account/sha256" in run["logged"]
    files = {f"roofline/{name}" for name in ("verdict.txt", "report.html", "report.json", "account.png")}
    assert files <= set(run["files"])
    verdict = place / "files" / "roofline" / "verdict.txt"
    assert verdict.read_text().startswith("Job 42 ") and not verdict.is_symlink()
    code = subprocess.run(
        [Path(PYTHON).with_name("wandb"), "sync", "--dry-run", place],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        env={**published.site.environ, "HOME": str(tmp_path)},
    )
    assert "1 run" in code.stdout + code.stderr, "W&B's own command knows it as one to send"


def test_what_wandb_refuses_is_one_line(published: Published, tmp_path: Path) -> None:
    done = published.publish("--wandb", "a/b", "--wandb-dir", tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "did not accept job 42" in done.stderr
    (tmp_path / "file").write_text("")
    done = published.publish("--wandb", "trials", "--wandb-dir", tmp_path / "file")
    assert done.returncode == 1 and "cannot be written" in done.stderr


def test_tensorboard_reads_numbers_texts_and_pictures(published: Published, tmp_path: Path) -> None:
    done = published.publish("--tensorboard", tmp_path)
    assert done.returncode == 0, done.stderr
    found = read(READ_EVENTS, tmp_path / "42")
    ((when, median),) = found["scalars"]["roofline/step_median_seconds"]
    assert 0.015 < median < 0.5 and when > 1e9
    assert found["images"]["roofline/account"][0] > 100
    (verdict,) = [text for tag, text in found["texts"].items() if tag.startswith("roofline/verdict")]
    assert "Job 42 " in verdict


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_collector_takes_trace_and_numbers_and_passes_them_on(published: Published, scheme: str) -> None:
    """A real one, rotel; what it says in detail of what it has taken is read from its output."""
    command = [PYTHON, "-c", "import rotel; print(rotel.__path__[0])"]
    place = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    if not place:
        pytest.skip("rotel is not installed there")
    program, log = f"{place}/rotel-agent", f"collector-{scheme}.log"
    places = {one: f"127.0.0.1:{free_port()}" for one in ("http", "grpc")}
    listen = [word for one, at in places.items() for word in (f"--otlp-{one}-endpoint", at)]
    shown = ["--debug-log", "traces", "--debug-log", "metrics", "--debug-log-verbosity", "detailed"]
    published.site.start([program, "start", *listen, "--exporter", "blackhole", *shown], log)

    def sent() -> str:
        done = published.publish("--otlp", f"{scheme}://{places[scheme]}")
        return "" if done.returncode else done.stdout

    spans = int(wait_until(sent, 60, "the collector takes it").split()[6])
    assert spans > 40, "the job, 40 steps, and phases"

    def taken() -> str:
        text = published.site.log(log)
        return text if text.count("-> Name: roofline.ranks") == 1 else ""

    text = wait_until(taken, what="the collector has said what it got")
    assert text.count("Name           : step\n") == 40 and "Name           : job 42\n" in text
    assert "-> nv.dl.training.step: Int(39)" in text and "-> nv.dl.role: Str(worker)" in text
    lines = {line.strip() for line in text.splitlines()}
    for name in ("step_median_seconds", "steps_per_second", "share"):
        assert f"-> Name: roofline.{name}" in lines
