"""Jobs of a real Slurm get number, attributes and exit state from it, and are recorded without any flag."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import free_port

from ..end_to_end.conftest import COMMANDS, REPOSITORY, TRAINING
from .slurm_cluster import NOBODY, SlurmCluster, missing_programs, wait_until

pytestmark = pytest.mark.cluster
DEPLOYED = REPOSITORY / "deploy" / "slurm"
SCRIPTS = REPOSITORY / "examples" / "slurm"
SHORT = f"srun {sys.executable} {TRAINING} 20 0.02 8"  # a pretended training of 0.4 s


class Site:
    """Slurm with roofline on it: an agent a node, a server with TLS and tokens, a user who has joined."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = NOBODY if may_run_python(NOBODY) else 0
        folder.chmod(0o755)
        self.address = f"127.0.0.1:{free_port()}"
        self._install()
        files = {"Prolog": "prolog.sh", "TaskProlog": "task_prolog.sh", "Epilog": "epilog.sh"}
        settings = "\n".join(f"{name}={folder}/{file}" for name, file in files.items())
        slurm = folder / "slurm"
        slurm.mkdir()
        self.slurm = SlurmCluster(slurm, f"{settings}\nPrologFlags=Alloc")
        self.home = folder / "home"
        self.home.mkdir()
        os.chown(self.home, self.uid, self.uid)

    def _install(self) -> None:
        """/opt/roofline, and the scripts of deploy/slurm that name it, in this folder."""
        place = self.folder / "opt"
        packages = place / "lib" / "python3" / "site-packages"
        packages.mkdir(parents=True)
        (place / "bin").symlink_to(COMMANDS)
        (packages / "roofline_agent").symlink_to(REPOSITORY / "agent" / "roofline_agent")
        for script in DEPLOYED.glob("*.sh"):
            made = self.folder / script.name
            made.write_text(script.read_text().replace("/opt/roofline", str(place)))
            made.chmod(0o755)

    def start(self) -> None:
        data = self.folder / "data"
        server = COMMANDS / "roofline-server"
        self.run(server, "init", "--data", data)
        listen = [server, "--listen", self.address, "--data", data, "--http", "off"]
        self.slurm.start()
        self.slurm.run([str(one) for one in listen], "server")
        token = self.run(server, "token", "new", "--many", "--data", data).split()[-1]
        for node in self.slurm.nodes:
            agent = [COMMANDS / "roofline-agent", "--state", self.folder / f"state-{node}"]
            wait_until(lambda agent=agent: self.joined(agent, token), what="the server answers")
            self.slurm.on_node(node, *agent, "--interval", "0.2", log=f"agent-{node}")
        reader = self.run(server, "token", "new", "--role", "reader", "--data", data).split()[-1]
        self.client("join", self.address, reader)

    def joined(self, agent: list[Any], token: str) -> bool:
        return self.slurm.command(*agent, "join", self.address, token, check=False).returncode == 0

    def run(self, *command: Any) -> str:
        return self.slurm.command(*command).stdout

    def client(self, *arguments: Any) -> str:
        """As the user, who is nobody special."""
        return self.slurm.command(
            COMMANDS / "roofline-client", *arguments, uid=self.uid, HOME=str(self.home)
        ).stdout

    def submit(self, script: str | Path, *options: Any, python: str = "", **more: Any) -> str:
        """As the user; its number."""
        path = ":".join(filter(None, [str(Path(python).parent) if python else "", str(COMMANDS)]))
        environ = {"HOME": str(self.home), "PATH": f"{path}:/usr/bin:/bin", "PYTHONPATH": ""}
        return self.slurm.sbatch(script, *options, uid=self.uid, **environ, **more)

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {job["job"]: job for job in json.loads(self.client("jobs", "--format", "json"))["jobs"]}

    def ended(self, job: str) -> dict[str, Any]:
        """A job as the server lists it, once Slurm's word has come."""

        def found() -> dict[str, Any] | None:
            one = self.jobs().get(job)
            return one if one and "slurm.state" in one["tags"] else None

        result: dict[str, Any] = wait_until(found, 30, f"the end of job {job}")
        return result

    def report(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.client("report", "--job", job, "--steps", "all", "--format", "json")
        )
        return found

    def steps(self, job: str) -> dict[str, float]:
        return {r["rank"]: r["summary"]["values"]["steps"]["value"] for r in self.report(job)["ranks"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.getuid() != 0:
        pytest.skip("takes root")
    if missing := missing_programs():
        pytest.skip(f"install slurm-wlm and munge: {', '.join(missing)} not found")
    folder = tmp_path_factory.mktemp("slurm")
    for above in (folder, *folder.parents):
        if str(above).startswith("/tmp/"):
            above.chmod(0o755)
    made = Site(folder)
    try:
        made.start()
        yield made
    finally:
        made.slurm.stop()


def may_run_python(uid: int) -> bool:
    """Whether a user may enter all folders on the way to this Python, whose home may be closed."""
    # By a shell: setpriv itself still has root's way through folders when it starts a program.
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return (
        subprocess.run([*who, "sh", "-c", '"$0" -c ""', sys.executable], stderr=subprocess.DEVNULL).returncode
        == 0
    )


def python_of(variable: str) -> str:
    found = os.environ.get(variable, "")
    if not found:
        pytest.skip(f"{variable} names no Python with the framework")
    return found


def test_step_of_srun_has_all_from_slurm_and_no_flag(site: Site) -> None:
    job = site.submit(SHORT, "-N2", "-n4", "-A", "physics", "--gpus-per-node=2", "-J", "wide")
    assert site.slurm.wait(job)["JobState"] == "COMPLETED"
    found = site.ended(job)
    assert found["roles"] == {"worker": 4} and sorted(found["hosts"]) == ["n1", "n2"]
    assert found["state"] == "finished (exit 0)"
    assert {name.removeprefix("slurm."): text for name, text in found["tags"].items()} == {
        "job": job,
        "user": pwd.getpwuid(site.uid).pw_name,
        "account": "physics",
        "partition": "short",
        "name": "wide",
        "nodes": "2",
        "tasks": "4",
        "gpus_per_node": "2",
        "state": "COMPLETED",
        "exit": "0",
    }
    assert site.steps(job) == {f"worker:{index}": 20 for index in range(4)}


def test_batch_script_without_srun_is_known_by_its_number(site: Site) -> None:
    job = site.submit(SHORT.removeprefix("srun "), "-n1")
    site.slurm.wait(job)
    assert site.ended(job)["roles"] == {"worker": 1} and site.steps(job) == {"worker:0": 20}


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("exit 3", "failed: Slurm says FAILED (exit 3)"),
        ("kill -9 $$", "failed: Slurm says FAILED (exit 0:9)"),
    ],
)
def test_job_that_fails_is_failed(site: Site, end: str, state: str) -> None:
    job = site.submit(f"{SHORT}; {end}", "-n2")
    assert site.slurm.wait(job)["JobState"] == "FAILED"
    assert site.ended(job)["state"] == state


def test_job_that_was_cancelled_is_not_finished(site: Site) -> None:
    job = site.submit(SHORT.replace(" 20 ", " 20000 "), "-n2")
    wait_until(lambda: job in site.jobs(), what="its ranks are known")
    site.slurm.command("scancel", job)
    assert site.slurm.wait(job)["JobState"] == "CANCELLED"
    assert site.ended(job)["state"] == "ended: Slurm says CANCELLED"


def test_job_that_opts_out_is_not_recorded(site: Site) -> None:
    wrapped = f"srun {COMMANDS}/roofline-agent run -- {SHORT.removeprefix('srun ')}"
    script = f"{SHORT}; {wrapped}; {SHORT.removeprefix('srun ')}; echo over"
    out = site.submit(script, "-n2", "--comment=noroofline")
    site.slurm.wait(out)
    assert "over" in site.slurm.output(out, site.uid)
    after = site.submit(SHORT, "-n1")
    site.slurm.wait(after)
    site.ended(after)  # all that there was of the one before has come before it
    assert out not in site.jobs()


def test_tasks_of_an_array_are_jobs_of_their_own(site: Site) -> None:
    first = site.submit(SHORT, "-n1", "--array=3-4")
    site.slurm.wait(first)

    def tasks() -> dict[str, str] | None:
        found = {one["tags"].get("slurm.array", ""): one["state"] for one in site.jobs().values()}
        found = {name: state for name, state in found.items() if name.startswith(f"{first}_")}
        return found if len(found) == 2 and len({*found.values()}) == 1 else None

    assert wait_until(tasks, 30) == dict.fromkeys([f"{first}_3", f"{first}_4"], "finished (exit 0)")


def test_heterogeneous_job_is_one(site: Site) -> None:
    job = site.submit(SHORT.replace("srun", "srun --het-group=0,1"), "-n1", ":", "-n2")
    site.slurm.wait(job)
    found = site.ended(job)
    assert found["roles"] == {"worker": 3} and found["tags"]["slurm.parts"] == "2"
    assert found["state"] == "finished (exit 0)"


def test_distributed_data_parallel_by_sbatch(site: Site) -> None:
    python = python_of("ROOFLINE_TORCH_PYTHON")
    training = REPOSITORY / "examples" / "torch_ddp" / "train.py"
    job = site.submit(SCRIPTS / "ddp.sbatch", "-N2", python=python, after=(training, "--steps", 40))
    state = site.slurm.wait(job, 180)["JobState"]
    output = site.slurm.output(job, site.uid)
    assert state == "COMPLETED", output
    assert site.ended(job)["state"] == "finished (exit 0)"
    assert site.steps(job) == {"ddp:0": 40, "ddp:1": 40}
    said = output.splitlines()
    begin = next(number for number, line in enumerate(said) if line.startswith(f"Job {job} "))
    verdict = said[begin:]
    assert len(verdict) <= 10 and any(line.split()[0] in ("BOTTLENECK", "VERDICT") for line in verdict), (
        output
    )


def test_parameter_servers_by_sbatch(site: Site) -> None:
    python = python_of("ROOFLINE_TF_PYTHON")
    training = REPOSITORY / "examples" / "tensorflow_ps" / "train.py"
    job = site.submit(SCRIPTS / "ps.sbatch", "-N2", "-n3", python=python, after=(training, "--steps", 30))
    state = site.slurm.wait(job, 180)["JobState"]
    output = site.slurm.output(job, site.uid)
    assert state == "COMPLETED", output
    found = site.ended(job)
    assert (found["state"], found["roles"]) == ("finished (exit 0)", {"chief": 1, "ps": 1, "worker": 2})
    steps = site.steps(job)
    assert steps["worker:0"] + steps["worker:1"] == 60, steps
    assert f"Job {job} " in output


def test_job_that_is_requeued_is_a_run_of_its_own(site: Site) -> None:
    script = f'if [ "$SLURM_RESTART_COUNT" ]; then {SHORT}; else {SHORT.replace(" 20 ", " 20000 ")}; fi'
    job = site.submit(script, "-n1", "--requeue")
    wait_until(lambda: job in site.jobs(), what="its first run is known")
    site.slurm.command("scontrol", "requeue", job)
    # Slurm keeps a job that was requeued from starting for some time.
    wait_until(lambda: f"{job}/1" in site.jobs(), 170, "the second run is known")
    site.slurm.wait(job)
    assert site.ended(f"{job}/1")["state"] == "ended: Slurm says REQUEUED"
    second = site.ended(f"{job}/2")
    assert (second["state"], second["tags"]["slurm.restarts"]) == ("finished (exit 0)", "1")
