"""`make demo`: one server, one agent, a real TensorFlow parameter-server training as job 42, and its report.

Everything runs on this machine and in the folder `demo/`; nothing is left running, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = Path(sys.executable).parent
JOB = "42"
READY_S = 30


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return demo(options)
    except KeyboardInterrupt:
        print("demo: interrupted, everything is stopped", file=sys.stderr)
        return 130
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--training-python", required=True, help="interpreter that has TensorFlow")
    parser.add_argument("--folder", type=Path, default=ROOT / "demo", help="where data, logs and pictures go")
    parser.add_argument("--steps", type=int, default=80, help="training steps per worker")
    return parser.parse_args()


class DemoError(Exception):
    """Something of the demo could not be started; the text says what and where to look."""


def demo(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    # A job's number is used once; the data of the last demo would become part of this one.
    shutil.rmtree(folder / "data", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    server = f"127.0.0.1:{free_port()}"
    environ = {**os.environ, "ROOFLINE_SERVER": server, "ROOFLINE_SOCKET": str(folder / "agent.sock")}
    calibrate(folder, environ)
    with contextlib.ExitStack() as running:
        say("starting roofline-server and roofline-agent (10 samples a second)")
        running.enter_context(
            started("roofline-server", ["--listen", server, "--data", folder / "data"], folder, environ)
        )
        wait_for(lambda: answers(server), folder / "roofline-server.log")
        agent = ["--interval", "0.1", "--state", folder / "agent"]
        running.enter_context(started("roofline-agent", agent, folder, environ))
        wait_for(lambda: (folder / "agent.sock").exists(), folder / "roofline-agent.log")
        say("training: chief, parameter server, 2 workers, as `roofline-agent run --job 42 -- python ...`")
        status = train(options, folder, environ)
        if status:
            raise DemoError(
                f"the training failed with exit code {status}; its logs are in {folder / 'training'}"
            )
        time.sleep(2)  # the agent's last batch
        say(f"roofline-client report --job {JOB}")
        status = report(folder, environ)
        for question in (["steps", "--last", "6"], ["stragglers"]):
            say(f"roofline-client {' '.join(question)} --job {JOB}")
            status = status or ask([*question, "--job", JOB], environ)
        say("all ranks on one clock, for https://ui.perfetto.dev")
        timeline = folder / f"timeline-job-{JOB}.json.gz"
        return status or ask(["timeline", "--job", JOB, "--kernels", "-o", timeline], environ)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(server: str) -> bool:
    host, _, port = server.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def calibrate(folder: Path, environ: dict[str, str]) -> None:
    if (folder / "agent" / "ceilings.json").exists():
        say("ceilings of this machine: measured before, kept in demo/agent")
        return
    say("measuring the ceilings of this machine: roofline-agent calibrate (about 15 s, once)")
    subprocess.run(
        [COMMANDS / "roofline-agent", "--state", folder / "agent", "calibrate"], env=environ, check=True
    )


@contextlib.contextmanager
def started(
    name: str, arguments: Sequence[str | Path], folder: Path, environ: dict[str, str]
) -> Iterator[None]:
    """A service that runs until the block is left, and then ends by SIGTERM. Its log is NAME.log."""
    with open(folder / f"{name}.log", "w") as log:
        # A session of its own: Ctrl-C is for this program, which then stops the services in order.
        process = subprocess.Popen(
            [COMMANDS / name, *arguments], stderr=log, stdout=log, env=environ, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(ready, log: Path) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + READY_S
    while not ready():
        if time.monotonic() > deadline:
            raise DemoError(f"a service did not start; see {log}:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def train(options: argparse.Namespace, folder: Path, environ: dict[str, str]) -> int:
    wrapper = f"{COMMANDS / 'roofline-agent'} run --job {JOB} --"
    launch = ROOT / "examples" / "tensorflow_ps" / "launch.py"
    command = [
        sys.executable, launch, "--python", options.training_python, "--prefix", wrapper,
        "--steps", str(options.steps), "--logs", folder / "training",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=environ)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def report(folder: Path, environ: dict[str, str]) -> int:
    picture = folder / f"roofline-job-{JOB}.png"
    status = ask(["report", "--job", JOB, "--plot", picture], environ)
    with open(folder / f"report-job-{JOB}.json", "w") as file:
        command = [COMMANDS / "roofline-client", "report", "--job", JOB, "--format", "json"]
        subprocess.run(command, env=environ, stdout=file, check=status == 0)
    return status


def ask(arguments: Sequence[str | Path], environ: dict[str, str]) -> int:
    return subprocess.run([COMMANDS / "roofline-client", *arguments], env=environ).returncode


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
