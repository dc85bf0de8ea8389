"""Runs the trainings of docs/answers.md, and writes the first screen that `report` prints of each."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..end_to_end.conftest import COMMANDS
from .__main__ import RAW, ROOT, SEEDS
from .jobs import JobError
from .observe import Setting
from .plans import HEALTHY, Plan, plans
from .runs import JOB, profiled, reference_run

PAGE = ROOT / "docs" / "answers.md"
TRIES = 3
SITUATIONS = (  # title, plan: the commonest
    ("Healthy", "ddp-mlp-healthy-quiet-0"),
    ("Slow input on one rank", "ddp-cnn-sleep_input-50-quiet-0"),
    ("One rank does more work", "ddp-cnn-batch-50-quiet-0"),
    ("Python code on one rank", "horovod-cnn-python-50-quiet-0"),
    ("Garbage collection on one rank", "fsdp2-cnn-gc-50-quiet-0"),
    ("Another process on a rank's CPU", "ddp-cnn-hog-50-quiet-0"),
    ("The CPU limit of a cgroup", "ddp-cnn-quota-50-quiet-0"),
    ("A rank is stopped again and again", "fsdp2-cnn-stops-50-quiet-0"),
    ("More work for a lone parameter server, which is not found", "ps_async-cnn-ps_work-50-quiet-0"),
    ("A parameter server at its CPU limit", "ps_sync-cnn-ps_quota-50-quiet-0"),
    ("A slow network link", "ddp-mlp-uplink-50-quiet-0"),
    ("Something that nothing traces", "ddp-cnn-sleep_step-50-quiet-0"),
)
HEAD = """# What a report looks like

The first screen of `roofline-client report` for common situations. Each is a real training on two CPUs
with one cause planted in it, so its numbers are those of a small machine. The line above each screen says
what was planted; the program is not told. {command} runs the trainings again and writes this page.
"""


def calibrated(state: Path) -> Path:
    """Ceilings of this machine, measured once."""
    if not (state / "ceilings.json").exists():
        command = [COMMANDS / "roofline-agent", "--state", state, "calibrate"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return state / "ceilings.json"


def screen(plan: Plan, setting: Setting) -> str:
    ceilings = calibrated(setting.raw / "state")
    with tempfile.TemporaryDirectory(prefix="roofline-screens-") as name:
        folder = Path(name)
        reference = {} if plan.cause == HEALTHY else reference_run(plan, setting, folder / "reference")
        (folder / "agent").mkdir()
        shutil.copy(ceilings, folder / "agent")
        with profiled(plan, setting, folder, reference) as (site, _):
            return str(site.ask("report", JOB).stdout)


def tried(plan: Plan, setting: Setting) -> str:
    """FSDP2 over gloo now and then aborts at its end, with and without a profiler."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(JobError):
            return screen(plan, setting)
    return screen(plan, setting)


def planted(plan: Plan) -> str:
    if plan.cause == HEALTHY:
        return f"`{plan.key}`: nothing is planted."
    return f"`{plan.key}`: `{plan.cause}` on {plan.rank}, sized for {plan.severity:.0%} of a step."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.causes.screens", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WORDS", help="print these alone, write no page"
    )
    parser.add_argument("--seconds", type=float, default=14, help="of a training (default 14)")
    for name in ("torch", "tensorflow"):
        python = ROOT / f".venv-{name}" / "bin" / "python"
        parser.add_argument(f"--{name}-python", default=str(python), help=f"interpreter that has {name}")
    asked = parser.parse_args()
    setting = Setting(
        {"torch": asked.torch_python, "tensorflow": asked.tensorflow_python}, asked.seconds, RAW
    )
    known = {plan.key: plan for plan in plans(range(SEEDS), 2)}
    page = [HEAD.format(command="`python -m tests.causes.screens`")]
    for title, key in SITUATIONS:
        if asked.only and not any(word in key for word in asked.only):
            continue
        print(title, file=sys.stderr, flush=True)
        shown = tried(known[key], setting)
        page += [f"## {title}\n", f"{planted(known[key])}\n", f"```\n{shown.rstrip()}\n```\n"]
        if asked.only:
            print("\n".join(page[-3:]), flush=True)
    if not asked.only:
        PAGE.write_text("\n".join(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
