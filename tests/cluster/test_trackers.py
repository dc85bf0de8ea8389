"""Weights & Biases' and TensorBoard's own packages read what `roofline-client publish` puts there."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ..end_to_end.conftest import Site, wait_until

pytestmark = pytest.mark.cluster
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
            timeout=120,
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
    done = subprocess.run([PYTHON, "-c", code, path], capture_output=True, text=True, timeout=120)
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
    assert "has not taken job 42" in done.stderr
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


def test_trace_and_numbers_are_sent_by_the_exporter_of_opentelemetry(published: Published) -> None:
    """To a double of a collector; what is in them tests/client/test_otlp.py says."""
    paths: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = published.publish("--otlp", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    spans = int(done.stdout.split()[6])
    assert spans > 40, "the job, 40 steps, and phases"
    assert paths == ["/v1/traces", "/v1/metrics"]
