"""Retention with real processes: the server by itself, `prune` next to it and alone, and killed in the middle
of it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_client import ClientError, connect
from roofline_server.store.store import Store

from tests.server.builders import UNIX, Node, S, open_store, rank, training
from tests.server.store.histories import files, known_files, steps

from .conftest import COMMANDS, Site, wait_until

pytestmark = pytest.mark.slow

JOBS = [f"job{number}" for number in range(12)]
A = Node("a", UNIX, "hosta")


def batches(job: str, number: int) -> list[pb.Batch]:
    """A job of some 40 s, years ago."""
    begin = (100 + 60 * number) * S
    ranks = [rank(job=job, pid=100 + number)]
    return training(ranks, first_ns=begin, first_sequence=1 + 8 * number)


def fill(root: Path) -> None:
    store = open_store(root)
    A.greet(store)
    for number, job in enumerate(JOBS):
        A.put(store, *batches(job, number))
        store.seal()
    store.close()


def prune(site: Site, *options: object) -> subprocess.CompletedProcess[str]:
    command = [COMMANDS / "roofline-server", "prune", "--data", site.folder / "data", *options]
    return subprocess.run(
        list(map(str, command)), env=site.environ, capture_output=True, text=True, timeout=60
    )


def removed(site: Site) -> dict[str, str]:
    with connect(site.address, timeout=20) as client:
        return {job.job: job.removed for job in client.jobs()}


@pytest.fixture
def filled(site: Site) -> Site:
    fill(site.folder / "data")
    return site


def test_server_removes_by_itself_what_is_older_than_it_shall_keep(filled: Site) -> None:
    # Without data of today the server would wait for an hour, in case its clock is wrong.
    store, today = open_store(filled.folder / "data"), Node("b", time.time_ns() - 1000 * S, "hostb")
    today.greet(store)
    today.put(store, *training([rank(job="today")]))
    store.close()
    filled.server("--keep-days", "1000")
    # The jobs ended in 2023.
    expected = {**dict.fromkeys(JOBS, "raw data"), "today": ""}
    wait_until(lambda: removed(filled) == expected, what="raw data are removed")
    report = filled.ask("report", "--job", "job3", "--steps", "all", "--format", "json")
    assert report.returncode == 0, report.stderr
    shown = json.loads(report.stdout)
    assert any("retention removed the raw data of job job3" in note for note in shown["notes"])
    assert shown["ranks"][0]["summary"]["values"]["steps"]["value"] == 57
    assert "removed: raw data" in filled.ask("jobs").stdout
    timeline = filled.ask("timeline", "--job", "job3", "-o", filled.folder / "timeline.json")
    assert timeline.returncode != 0
    assert "retention removed the raw data of job job3" in timeline.stderr
    assert "Traceback" not in filled.log("server.log")


def test_without_options_nothing_is_removed(filled: Site) -> None:
    filled.server()
    assert prune(filled, "--job", "job1").returncode == 0  # after the server's own first look
    assert {job: what for job, what in removed(filled).items() if what} == {"job1": "raw data"}


def test_prune_beside_a_server_is_done_by_the_server(filled: Site) -> None:
    filled.server()
    shown = prune(filled, "--older-than", "30d", "--keep-tagged", "a", "--dry-run", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert [job["job"] for job in json.loads(shown.stdout)["jobs"]] == JOBS
    assert set(removed(filled).values()) == {""}
    done = prune(filled, "--job", "job5", "--leave", "report")
    assert done.returncode == 0, done.stderr
    assert "job5" in done.stdout and "1 job, " in done.stdout
    assert removed(filled) == {job: "raw data, steps" if job == "job5" else "" for job in JOBS}
    # Of steady steps, as it was kept: the first is left out.
    assert filled.report("job5")["ranks"][0]["summary"]["values"]["steps"]["value"] == 56
    with connect(filled.address, timeout=20) as client, pytest.raises(ClientError, match="step deltas"):
        client.stragglers("job5")
    unknown = prune(filled, "--job", "nobody's")
    assert (unknown.returncode, "no job" in unknown.stderr) == (5, True)
    assert not list((filled.folder / "data").glob("prune.*"))


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 2, "--older-than, --to-size or --job"),
        (["--older-than", "soon"], 2, "10w"),
        (["--to-size", "5 acres"], 2, "10TB"),
        (["--older-than", "1d", "--leave", "crumbs"], 2, "crumbs"),
        (["--older-than", "1d", "--data", "/nowhere"], 3, "no data directory"),
    ],
)
def test_prune_says_what_it_cannot_do(site: Site, options: list[str], code: int, says: str) -> None:
    fill(site.folder / "data")
    done = prune(site, *options)
    assert done.returncode == code
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def steps_of(store: Store) -> dict[str, object]:
    return {job: steps(store, job) for job in JOBS}


def test_killed_amid_the_work_it_loses_no_step_and_leaves_no_file(filled: Site) -> None:
    root = filled.folder / "data"
    store = open_store(root)
    before = steps_of(store)
    store.close()
    kills = 0
    for changes in (1, 3, 5, 8, 13, 21, 34, 1000):
        process = subprocess.Popen(
            [str(COMMANDS / "roofline-server"), "prune", "--data", str(root), "--older-than", "1d"],
            env=filled.environ,
            stdout=subprocess.DEVNULL,
        )
        found = files(root)
        # Once so many files have come or gone.
        while process.poll() is None and len(files(root) ^ found) < changes:
            pass
        process.kill()
        kills += process.wait() != 0
        store = open_store(root)
        assert files(root) == known_files(root)
        assert not (root / "quarantine").exists()
        assert steps_of(store) == before
        whole = [job for job in JOBS if not store.removed(job)]
        store.close()
    assert whole == []
    assert kills >= 1  # on a busy machine most have ended before they are seen
    raw = [path for path in files(root) if "/steps" not in path and "/parts_" not in path]
    assert {path.split("/")[-2] for path in raw} == {"events"}
