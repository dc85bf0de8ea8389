"""`make demo`: one server, one agent, a real TensorFlow parameter-server training as job 42, and its report.

Everything runs on this machine and in the folder `demo/`; nothing is left running, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from services import COMMANDS, ROOT, Services, main, running, say

JOB = "42"
PICTURES = ("roofline", "hierarchical", "time", "breakdown", "network", "steps")
QUESTIONS = (
    ("steps", "--last", "6"),
    ("stragglers",),
    ("roofline", "--points", "role"),
    ("breakdown",),
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--training-python", required=True, help="interpreter that has TensorFlow")
    parser.add_argument("--folder", type=Path, default=ROOT / "demo", help="where data, logs and pictures go")
    parser.add_argument("--stay", action="store_true", help="keep the live page up until Ctrl-C")
    parser.add_argument("--steps", type=int, default=80, help="training steps per worker")
    return parser.parse_args()


def demo(options: argparse.Namespace) -> int:
    with running(options.folder, ["--python", options.training_python]) as services:
        if services.page:
            say(f"watch it in a browser: {services.page}/job?job={JOB}")
        say("training: chief, parameter server, 2 workers, as `roofline-agent run --job 42 -- python ...`")
        train(services, options)
        time.sleep(2)  # the agent's last batch
        say(f"roofline-client report --job {JOB}")
        status = report(services)
        for question in QUESTIONS:
            say(f"roofline-client {' '.join(question)} --job {JOB}")
            status = status or services.ask(*question, "--job", JOB)
        say("all ranks on one clock, for https://ui.perfetto.dev")
        timeline = services.folder / f"timeline-job-{JOB}.json.gz"
        status = status or services.ask("timeline", "--job", JOB, "--kernels", "-o", timeline)
        say("pictures")
        for kind in PICTURES:
            file = services.folder / f"{kind}-job-{JOB}.png"
            status = status or services.ask("plot", "--job", JOB, "--kind", kind, "-o", file)
        if services.page:
            stay(f"{services.page}/job?job={JOB}", options.stay)
        return status


def stay(page: str, is_live: bool) -> None:
    """Name the live page; is_live: and keep it up until Ctrl-C."""
    if not is_live:
        say(f"the live page was at {page}: `make demo-live` keeps it up")
        return
    say(f"the live page: {page} (Ctrl-C ends it)")
    while True:
        time.sleep(3600)


def train(services: Services, options: argparse.Namespace) -> None:
    wrapper = f"{COMMANDS / 'roofline-agent'} run --job {JOB} --"
    launch = ROOT / "examples" / "tensorflow_ps" / "launch.py"
    services.train(
        [
            *(sys.executable, launch, "--python", options.training_python, "--prefix", wrapper),
            *("--steps", str(options.steps), "--logs", services.folder / "training"),
        ]
    )


def report(services: Services) -> int:
    status = services.ask("report", "--job", JOB)
    with open(services.folder / f"report-job-{JOB}.json", "w") as file:
        command = [COMMANDS / "roofline-client", "report", "--job", JOB, "--format", "json"]
        subprocess.run(command, env=services.environ, stdout=file, check=status == 0)
    return status


if __name__ == "__main__":
    asked = parse()
    sys.exit(main("demo", lambda: demo(asked)))
