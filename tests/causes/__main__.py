"""Runs the benchmark of causes, lists its runs, asks again about kept raw data, or writes the tables."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import results, tables
from .jobs import JobError
from .observe import Setting
from .plans import Plan, plans
from .runs import ask_again, commit, run
from .score import is_disturbed, scored

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
RAW = Path(__file__).with_name("raw")
SEEDS = 4


def main() -> int:
    asked = options()
    signal.signal(signal.SIGTERM, stop)
    known = results.read(asked.results)
    try:
        return {"run": run_all, "list": list_all, "again": again, "score": score}[asked.what](asked, known)
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept, and the next run goes on from there", file=sys.stderr)
        return 130


def stop(*_: object) -> None:
    """Everything that was started is ended on the way out; a second signal must not cut that short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.causes", description=__doc__)
    parser.add_argument("what", choices=("run", "list", "again", "score"))
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WORDS", help="runs whose name has one of these in it"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so long")
    parser.add_argument("--seed", type=int, help="runs of this seed only")
    parser.add_argument("--redo", action="store_true", help="run those again that other programs disturbed")
    parser.add_argument("--seconds", type=float, default=14, help="of a training (default 14)")
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the results")
    parser.add_argument("--raw", type=Path, default=RAW, help="folder of the raw data")
    for name in ("torch", "tensorflow"):
        python = ROOT / f".venv-{name}" / "bin" / "python"
        parser.add_argument(f"--{name}-python", default=str(python), help=f"interpreter that has {name}")
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> list[Plan]:
    seeds = range(SEEDS) if asked.seed is None else range(asked.seed, asked.seed + 1)
    every = plans(seeds, os.cpu_count() or 1)
    return [one for one in every if not asked.only or any(word in one.key for word in asked.only)]


def setting(asked: argparse.Namespace) -> Setting:
    return Setting(
        {"torch": asked.torch_python, "tensorflow": asked.tensorflow_python}, asked.seconds, asked.raw
    )


def run_all(asked: argparse.Namespace, known: dict[str, dict]) -> int:
    done = {key for key, one in known.items() if not (asked.redo and is_disturbed(one))}
    todo = [one for one in chosen(asked) if one.key not in done]
    if lacks_horovod(asked.torch_python):
        print("no Horovod for PyTorch: its runs are left out", flush=True)
        todo = [one for one in todo if one.framework != "horovod"]
    begin, failed = time.monotonic(), 0
    print(f"{len(todo)} runs to do, {len(done)} done before", flush=True)
    for number, plan in enumerate(todo):
        spent = time.monotonic() - begin
        if spent > 60 * asked.minutes:
            break
        left = f", about {spent / number * (len(todo) - number) / 60:.0f} min left" if number else ""
        print(f"[{number + 1} of {len(todo)}{left}] {plan.key}", flush=True)
        try:
            found = run(plan, setting(asked))
        except (JobError, AssertionError, OSError) as error:
            failed += 1
            print(f"    failed: {error}", file=sys.stderr, flush=True)
            continue
        results.add(found, asked.results)
        print(f"    {line(found)}", flush=True)
    if failed:
        print(f"{failed} runs failed", file=sys.stderr)
    return 0


def lacks_horovod(python: str) -> bool:
    return bool(subprocess.run([python, "-c", "import horovod.torch"], capture_output=True).returncode)


def line(found: dict) -> str:
    """What was planted and what was said, in short."""
    truth, said = found["truth"], found["said"]
    cost = f"{1e3 * truth['cost_s']:.1f} ms" if truth["cost_s"] is not None else "nothing"
    findings = "; ".join(
        f"{one['rank']} {one['kind']} {1e3 * (one['cost_s'] or 0):.1f} ms" for one in said["findings"]
    )
    reference = truth.get("reference") or truth.get("bare")
    before = f"{1e3 * reference['step_s']:.1f} -> " if reference else ""
    step = f"{before}{1e3 * truth['step_s']:.1f} ms"
    planted = f"planted {found['plan']['rank']} {cost} ({step})"
    return f"{scored(found).outcome}: {planted}; said {findings or said['kind']}"


def list_all(asked: argparse.Namespace, known: dict[str, dict]) -> int:
    sys.stdout.write(tables.listing(chosen(asked), known) + "\n")
    return 0


def again(asked: argparse.Namespace, known: dict[str, dict]) -> int:
    """Ask this version about the raw data of earlier runs."""
    for plan in chosen(asked):
        if plan.key in known and (asked.raw / f"{plan.key}.tar.gz").exists():
            said = ask_again(plan, setting(asked))
            known[plan.key]["asked"] = (
                commit()
            )  # of the version that says it; `commit` is the one that measured
            known[plan.key]["said"] = {**said._asdict(), "findings": [one._asdict() for one in said.findings]}
            print(f"{plan.key}\n    {line(known[plan.key])}", flush=True)
    results.replace(known.values(), asked.results)
    return 0


def score(asked: argparse.Namespace, known: dict[str, dict]) -> int:
    PAGE.write_text(tables.into(PAGE.read_text(), tables.page(known.values(), os.cpu_count() or 1)))
    print(f"{len(known)} runs: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
