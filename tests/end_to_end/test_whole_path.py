"""A job seen from its ranks to its report, and what is left when parts of the way are killed."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import signal
import sqlite3
from collections.abc import Iterator

import pytest

from .conftest import COMMANDS, Site, values, wait_until

FLOPS = 2 * 512**3
LEAST_BYTES = 3 * 512 * 512 * 4


def printed_rate(text: str) -> float:
    found = re.search(r"total examples/s: ([0-9.]+)", text)
    assert found, text
    return float(found[1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose job is over: a parameter server, and two workers of 60 steps."""
    site = Site(tmp_path_factory.mktemp("trained"))
    try:
        site.server("--seal", "0.5")
        site.agent()
        server_rank = site.serving_rank()
        workers = [site.rank("worker", i, 60, 0.03, 16) for i in range(2)]
        assert [w.wait(timeout=60) for w in workers] == [0, 0]
        wait_until(lambda: all(site.worked(f"worker:{i}", 60) for i in range(2)), what="all steps arrive")
        server_rank.send_signal(signal.SIGTERM)
        assert server_rank.wait(timeout=60) == -signal.SIGTERM
        yield site
    finally:
        site.stop()


def test_report_agrees_with_what_the_ranks_did(trained: Site) -> None:
    site, report = trained, trained.report()
    assert [role["role"] for role in report["roles"]] == ["ps", "worker"]
    for index in range(2):
        seen = values(report, f"worker:{index}")
        assert seen["steps"] == 60
        assert 0.03 <= seen["step_time_median"] < 0.3  # it sleeps 0.03 s a step, or longer where others run
        assert seen["examples_per_second"] == pytest.approx(
            printed_rate(site.log(f"worker{index}.log")), rel=0.05
        )
        assert seen["flops_per_step"] == FLOPS
        assert seen["bytes_per_step.minimum"] == LEAST_BYTES
        assert seen["intensity.minimum"] == FLOPS / LEAST_BYTES
        assert 0 < seen["cpu_time_per_step"] < 0.1
        assert seen["memory_peak"] > 1e6
        assert seen["roof_share"] is None  # never calibrated here
    served = values(report, "ps:0")
    assert served["flops_per_step"] is None
    assert served["examples_per_second"] is None
    assert "onednn_verbose" not in site.log("worker0.log")


@pytest.mark.slow
def test_killed_server_loses_no_step(site: Site) -> None:
    server = site.server("--seal", "0.5")
    site.agent()
    worker = site.rank("worker", 0, 250, 0.02, 16)
    wait_until(lambda: site.steps("worker:0") > 60, what="steps arrive")
    server.kill()
    server.wait()
    wait_until(
        lambda: "does not answer" in site.log("agent.log") or "ended the stream" in site.log("agent.log")
    )
    server = site.server("--seal", "0.5")
    server.kill()  # once more, right after it came back
    server.wait()
    site.server("--seal", "0.5")
    assert worker.wait(timeout=60) == 0
    wait_until(lambda: site.worked("worker:0", 250), what="every step is there")
    report = site.report()
    seen = values(report, "worker:0")
    assert seen["steps"] == 250
    assert seen["flops_per_step"] == FLOPS
    assert report["gaps"] == []
    assert not any("not seen" in note for note in report["notes"])


@pytest.mark.slow
def test_killed_agent_leaves_a_stated_gap_and_the_training_alone(site: Site) -> None:
    site.server()
    agent = site.agent()
    worker = site.rank("worker", 0, 1_000_000, 0.02, 16)
    wait_until(lambda: site.steps("worker:0") > 50, what="steps arrive")
    agent.kill()
    agent.wait()
    before = site.log("worker0.log").count("step ")
    wait_until(
        lambda: site.log("worker0.log").count("step ") > before + 3, what="training goes on without an agent"
    )
    known = site.steps("worker:0")
    site.agent()
    wait_until(lambda: site.steps("worker:0") > known + 100, what="marks resume")
    worker.terminate()
    worker.wait(timeout=60)
    site.stop()
    site.server()
    report = site.report()
    assert len(report["gaps"]) == 1
    gap = report["gaps"][0]
    assert 0.5 < (gap["end_ns"] - gap["begin_ns"]) / 1e9 < 60
    assert "started again" in gap["reason"]
    assert any(note.startswith("gap: ") for note in report["notes"])
    assert any("were not seen" in note for note in report["notes"])
    # Steps cut by the gap have no complete kernel record: they are left out, not counted as less work.
    assert values(report, "worker:0")["flops_per_step"] == FLOPS


@pytest.mark.slow
def test_agent_that_starts_late_picks_up_a_running_rank(site: Site) -> None:
    site.server()
    worker = site.rank("worker", 0, 1_000_000, 0.02, 16)
    wait_until(lambda: "step 20" in site.log("worker0.log"), what="the training runs")
    site.agent()
    wait_until(lambda: site.steps("worker:0") > 20, what="later steps are seen")
    worker.terminate()
    worker.wait(timeout=60)
    assert "nothing is recorded until" in site.log("worker0.log")
    wait_until(lambda: site.worked("worker:0", site.steps("worker:0")), what="the work of its steps arrives")
    assert values(site.report(), "worker:0")["flops_per_step"] == FLOPS


@pytest.mark.slow
def test_full_spool_drops_the_oldest_and_says_so(site: Site) -> None:
    """The server is away and the spool is tiny: what is lost is counted and reported."""
    agent = site.start(
        [COMMANDS / "roofline-agent", "--interval", "0.1", "--state", site.folder / "agent"],
        "agent.log",
        ROOFLINE_SPOOL_MB="1",
    )
    wait_until(site.listens)
    rank = site.rank("worker", 0, 1_000_000, 0.0002, 16)
    with contextlib.closing(sqlite3.connect(site.folder / "agent" / "spool.db")) as spool:
        oldest = "select min(sequence) from batch"
        wait_until(lambda: (spool.execute(oldest).fetchone()[0] or 0) > 1, what="the first batch is dropped")
    rank.send_signal(signal.SIGTERM)
    rank.wait(timeout=60)
    site.server()

    def lost() -> int:
        notes = " ".join(known.notes) if (known := site.known()) else ""
        found = re.search(r"lost: (\d+) batch(?:es)? \(spool full\)", notes)
        return int(found[1]) if found else 0

    assert wait_until(lost, what="the report says what was lost") >= 1
    wait_until(lambda: site.steps("worker:0") > 0, what="the rest is sent")
    first = site.ask("steps", "--job", "42", "--format", "csv").stdout.splitlines()[1]
    assert int(first.split(",")[1]) > 0, "the oldest step was among what is lost"
    assert agent.poll() is None


@pytest.mark.slow
def test_report_as_text_csv_and_picture(trained: Site) -> None:
    site = trained
    text = site.ask("report", "--job", "42")
    assert "worker:0" in text.stdout and "\x1b[" not in text.stdout
    table = list(csv.DictReader(io.StringIO(site.ask("report", "--job", "42", "--format", "csv").stdout)))
    flops = [r for r in table if r["rank"] == "worker:0" and r["metric"] == "flops_per_step"]
    assert float(flops[0]["value"]) == FLOPS and flops[0]["provenance"] == "analytic"
    absent = [r for r in table if r["value"] == ""]
    assert absent and all(r["reason"] for r in absent)
    picture = site.folder / "roofline.png"
    assert site.ask("report", "--job", "42", "--plot", picture).returncode == 0
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    some = site.ask("report", "--job", "42", "--steps", "10:19", "--format", "csv").stdout
    counts = [
        r for r in csv.DictReader(io.StringIO(some)) if r["rank"] == "worker:0" and r["metric"] == "steps"
    ]
    assert float(counts[0]["value"]) == 10
