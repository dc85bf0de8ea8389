"""Jobs are runs: a number used again is another run, and a finished one stays as it is. Real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.agent.ncu.fake_ncu import install

from .conftest import COMMANDS, Site, wait_until
from .runs import JOB, SECONDS, STEPS, report_that_stays, train, until_finished, whole_report

pytestmark = pytest.mark.slow


@pytest.fixture
def running(site: Site) -> Site:
    site.server("--seal", "0.5")
    site.agent()
    return site


def test_number_used_again_is_a_new_run_and_a_finished_one_never_changes(running: Site) -> None:
    site = running
    train(site)
    assert until_finished(site, JOB) == {JOB: "finished (exit 0)"}
    wait_until(lambda: site.steps("worker:0", JOB) == STEPS, what="all steps are known")
    first = report_that_stays(site)
    train(site, steps=STEPS + 5)
    assert until_finished(site, f"{JOB}/1", f"{JOB}/2").keys() == {f"{JOB}/1", f"{JOB}/2"}
    train(site, steps=STEPS + 7)
    until_finished(site, f"{JOB}/1", f"{JOB}/2", f"{JOB}/3")
    wait_until(lambda: site.steps("worker:0", f"{JOB}/3") == STEPS + 7)
    assert site.steps("worker:0", f"{JOB}/2") == STEPS + 5
    assert site.steps("worker:0", JOB) == site.steps("worker:0", f"{JOB}/3")
    kept = json.dumps(whole_report(site, f"{JOB}/1"))
    assert json.loads(kept.replace(f"{JOB}/1", JOB)) == first, "but for its name, which is not the newest's"
    assert whole_report(site, JOB)["job"] == f"{JOB}/3"


SUPERVISOR = """
import os, subprocess, sys, time
environ = dict(os.environ, WORLD_SIZE="1", MASTER_ADDR="10.0.0.7", MASTER_PORT="1", RANK="0")
for status in (3, 0):
    steps = "12" if status else "15"
    wrap = ["roofline-agent", "run", "--quiet", "--job", "JOB", "--"]
    subprocess.run([*wrap, sys.executable, "TRAINING", steps, "0.02", "4"], env=environ)
    time.sleep(3)
"""


def test_restart_by_a_launcher_that_lives_is_the_same_run(running: Site, tmp_path: Path) -> None:
    site = running
    launcher = tmp_path / "torchrun"
    training = str(Path(__file__).with_name("training.py"))
    launcher.write_text(textwrap.dedent(SUPERVISOR).replace("TRAINING", training).replace("JOB", JOB))
    environ = {"PATH": f"{COMMANDS}:/usr/bin:/bin"}
    assert site.start([sys.executable, launcher], "launcher.log", **environ).wait(timeout=90) == 0
    found = until_finished(site, JOB)
    assert found == {JOB: "finished (exit 0)"}
    assert "started again once" in " ".join(whole_report(site, JOB)["notes"])


@pytest.mark.parametrize(
    "ending, said",
    [
        ("sys.exit(3)", "failed: worker:0 exited with 3 after step 20"),
        ("os._exit(3)", "failed: worker:0 exited with 3 after step 20"),
        (
            "time.sleep(0.2); os.kill(os.getpid(), signal.SIGKILL)",
            "failed: worker:0 killed by SIGKILL after step 20 (out of memory?)",
        ),
    ],
)
def test_how_a_rank_ended_is_kept(running: Site, tmp_path: Path, ending: str, said: str) -> None:
    site = running
    script = tmp_path / "ends.py"
    script.write_text(
        "import os, signal, sys, time\nimport roofline_step\n"
        "for k in range(21):\n    with roofline_step.step(k):\n        time.sleep(0.02)\n"
        f"{ending}\n"
    )
    site.rank("worker", 0, job=JOB, script=script).wait(timeout=60)
    assert until_finished(site, JOB) == {JOB: said}
    wait_until(lambda: site.steps("worker:0", JOB) == 21)
    report = whole_report(site, JOB)
    assert report["state"] == said == report["verdict"]["state"]
    (end,) = report["exits"]
    assert (end["rank"], end["state"], end["last_step"]) == ("worker:0", "exited", 20)
    assert f"worker:0 {end['words']}" in said


def test_how_a_rank_ended_is_kept_under_ncu(running: Site, tmp_path: Path) -> None:
    site = running
    training = Path(__file__).with_name("training.py")
    wrap = ["roofline-agent", "run", "--quiet", "--job", f"{JOB}-ncu", "--ncu", "5", "--"]
    environ = {
        "PATH": f"{COMMANDS}:/usr/bin:/bin",
        "ROOFLINE_NCU": str(install(tmp_path)),
        "FAKE_NCU": "lingers",
    }
    command = [*wrap, sys.executable, training, "20", "0.02", "4"]
    assert site.start(command, "ncu.log", **environ).wait(timeout=60) == 0
    assert until_finished(site, f"{JOB}-ncu") == {f"{JOB}-ncu": "finished (exit 0)"}


def test_rank_without_a_wrapper_has_no_exit_code(running: Site) -> None:
    site = running
    training = Path(__file__).with_name("training.py")
    command = [sys.executable, training, "20", "0.02", "4"]
    environ = {"ROOFLINE_JOB": f"{JOB}-bare", "ROOFLINE_RANK": "0"}
    assert site.start(command, "bare.log", **environ).wait(timeout=60) == 0
    assert until_finished(site, f"{JOB}-bare") == {f"{JOB}-bare": "ended (exit codes not known)"}


def test_batches_that_come_late_are_of_the_run_of_their_process(site: Site) -> None:
    """The server is down while a run ends and the next begins; and again started between."""
    server = site.server("--seal", "0.5")
    site.agent()
    train(site, steps=10)
    until_finished(site, JOB)
    server.send_signal(signal.SIGKILL)
    server.wait()
    train(site, steps=20)
    train(site, steps=25)
    site.server("--seal", "0.5")
    until_finished(site, f"{JOB}/1", f"{JOB}/2", f"{JOB}/3")
    wait_until(lambda: site.steps("worker:0", f"{JOB}/3") == 25)
    assert [site.steps("worker:0", f"{JOB}/{n}") for n in (1, 2)] == [10, 20]


def test_two_nodes_share_a_run_and_begin_the_next_together(site: Site) -> None:
    site.server("--seal", "0.5")
    site.agent()
    other = site.folder / "other"
    other.mkdir()
    socket = other / "agent.sock"
    site.start(
        [COMMANDS / "roofline-agent", "--interval", "0.1", "--state", other / "agent"],
        "other.log",
        ROOFLINE_SOCKET=str(socket),
    )
    wait_until(socket.exists)
    for _ in range(2):
        ranks = [both(site, index, path) for index, path in enumerate((site.socket, socket))]
        for rank in ranks:
            assert rank.wait(timeout=60) == 0
    until_finished(site, f"{JOB}/1", f"{JOB}/2")
    for job in (f"{JOB}/1", f"{JOB}/2"):
        wait_until(lambda job=job: [site.steps(f"worker:{n}", job) for n in (0, 1)] == [STEPS, STEPS])


def both(site: Site, index: int, socket: Path) -> subprocess.Popen[bytes]:
    training: list[Any] = [sys.executable, Path(__file__).with_name("training.py"), STEPS, SECONDS, 8]
    wrap = [COMMANDS / "roofline-agent", "run", "--job", JOB, "--role", "worker", "--rank", index, "--"]
    return site.start([*wrap, *training], f"node{index}.log", ROOFLINE_SOCKET=str(socket))


def test_trainings_that_nobody_named_do_not_meet(running: Site) -> None:
    site = running
    training = Path(__file__).with_name("training.py")
    command = [COMMANDS / "roofline-agent", "run", "--", sys.executable, training, "20", "0.02", "4"]
    trainings = [site.start(command, f"unnamed{n}.log") for n in range(2)]
    for one in trainings:
        assert one.wait(timeout=60) == 0
    said = [site.log(f"unnamed{n}.log").splitlines()[0] for n in range(2)]
    names = [words.partition(" as job ")[2].partition(";")[0] for words in said]
    assert len(set(names)) == 2 and all("-training-" in name for name in names)
    for name, words in zip(names, said, strict=True):
        assert words.endswith(f"`roofline-client report --job {name}`")
        wait_until(lambda name=name: site.steps("worker:0", name) == 20)
