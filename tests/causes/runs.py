"""Runs one plan: the training, and the same with the plant; both under a real server and agent."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, wait_until
from .answers import Said, ask
from .jobs import Kept
from .observe import Observed, Setting, is_pinned, observe
from .plans import HEALTHY, SELF_MEASURED, SERVERS, Plan

JOB = "1"
REFERENCE = ("step_s", "mean_s", "median_s", "others")  # of it, kept with a result
LASTS_S = 900.0  # how long a reference is good for


def run(plan: Plan, setting: Setting) -> dict[str, Any]:
    """The result of a plan, as it is kept. Raises JobError, OSError when something fails."""
    with tempfile.TemporaryDirectory(prefix="roofline-causes-") as name:
        folder = Path(name)
        reference = {} if plan.cause == HEALTHY else reference_run(plan, setting, folder / "reference")
        with profiled(plan, setting, folder, reference) as (site, observed):
            said = ask(site, JOB)
        keep_raw(plan, setting, folder)
    return result(plan, reference, observed, said)


@contextlib.contextmanager
def profiled(
    plan: Plan, setting: Setting, folder: Path, reference: dict[str, Any]
) -> Iterator[tuple[Site, Observed]]:
    """The training has run under a server that can be asked in the block. reference: as reference_run()
    gives it; empty: nothing is planted."""
    site = Site(folder)
    try:
        site.server("--seal", "1")
        site.agent()
        wrap = [COMMANDS / "roofline-agent", "run", "--job", JOB, "--"]
        observed = observe(plan, setting, folder / "planted", reference, wrap, site.environ)
        await_steps(site, observed.kept)
        yield site, observed
    finally:
        site.stop()


def await_steps(site: Site, kept: Kept) -> None:
    """Until the server has all steps, and their kernels and samples, which come a little later."""

    def there() -> bool:
        seen = site.seen(JOB)
        return all(
            (seen.get(rank, {}).get("steps") or 0) >= 0.98 * len(ends) - 1
            for rank, ends in kept.ends_ns.items()
        )

    with contextlib.suppress(AssertionError):  # what is missing is a result, too
        wait_until(lambda: there() or time.sleep(0.3), 20, "all steps arrive")
    time.sleep(1.5)


def reference_run(plan: Plan, setting: Setting, folder: Path) -> dict[str, Any]:
    """How the training runs without the plant, under the same profiler on the same CPUs: kept for a quarter
    of an hour, for all severities."""
    alike = (
        *(plan.framework, plan.model, plan.load, plan.seed, plan.servers),
        *(is_pinned(plan), plan.cause == "uplink", plan.rank),
    )
    file, name = setting.raw / "references.json", "/".join(map(str, alike))
    known = json.loads(file.read_text()) if file.exists() else {}
    if name in known and time.time() - known[name]["time"] < LASTS_S:
        return known[name]
    folder.mkdir()
    with profiled(plan, setting, folder, {}) as (_, observed):
        clock, used = observed.clock, observed.watch.cpu.get(plan.rank)
    seconds = (clock.end_ns - clock.begin_ns) / 1e9
    known[name] = {
        "time": time.time(),
        "step_s": clock.step_s,
        "mean_s": clock.mean_s,
        "median_s": clock.median_s,
        "others": observed.watch.others,
        "cores": used.between(clock.begin_ns, clock.end_ns) / seconds if used else 1.0,
    }
    setting.raw.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known))
    return known[name]


def result(plan: Plan, reference: dict[str, Any], observed: Observed, said: Said) -> dict[str, Any]:
    clock, watch = observed.clock, observed.watch
    window = clock.begin_ns, clock.end_ns
    steps = statistics.fmean(clock.steps.values())
    delays = {rank: taken.between(*window) / steps for rank, taken in watch.delay.items()}
    return {
        "key": plan.key,
        "plan": {**plan._asdict(), "rank": plan.rank, "servers": plan.servers},
        "truth": {
            **costs(plan, reference, observed),
            "step_s": clock.step_s,
            "median_s": clock.median_s,
            "steps": clock.steps,
            "reference": {name: reference[name] for name in REFERENCE} if reference else None,
            "delay_s": delays,
            "others": watch.others,
        },
        "said": {**said._asdict(), "findings": [one._asdict() for one in said.findings]},
        "versions": {"python": platform.python_version(), "framework": observed.kept.framework},
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "processor": platform.machine()},
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
    }


def costs(plan: Plan, reference: dict[str, Any], observed: Observed) -> dict[str, float | None]:
    """Seconds a step: what the plant took of its rank, what it cost the job, and what the job would gain
    without it by the pair of runs."""
    if plan.cause == HEALTHY:
        return {"planted_s": None, "cost_s": None, "gain_s": None}
    clock = observed.clock
    gain = clock.step_s - reference["step_s"]
    planted = planted_s(plan, observed)
    if plan.framework in SERVERS and plan.cause in SELF_MEASURED and planted is None:
        planted = plan.severity * reference["step_s"]  # a sleep or loop in a graph takes what it was asked to
    cost = planted if plan.cause in SELF_MEASURED else gain
    if plan.framework == "ps_async" and plan.rank in clock.mean_s:
        # A worker on its own slows down the job only by its part.
        measures_itself = plan.cause in SELF_MEASURED
        own = planted if measures_itself else beyond_others(clock.mean_s, reference["mean_s"], plan.rank)
        cost = None if own is None else clock.step_s - clock.step_with(plan.rank, own)
    return {"planted_s": planted, "cost_s": cost, "gain_s": gain}


def beyond_others(means: dict[str, float], reference: dict[str, float], rank: str) -> float:
    """By how much the steps of a rank are longer than those of the others, beyond what they are without the
    plant: what the whole machine does differently in the second run falls out."""

    def more(of: dict[str, float]) -> float:
        return of[rank] - statistics.fmean(mean for one, mean in of.items() if one != rank)

    return more(means) - more(reference)


def planted_s(plan: Plan, observed: Observed) -> float | None:
    """What the plant took a step, by its own clock; None where it has none."""
    clock, own = observed.clock, observed.kept.taken.get(plan.rank, [])
    if any(own):
        return statistics.fmean(own[-clock.steps[plan.rank] :])
    taken, steps = observed.planted.taken, statistics.fmean(clock.steps.values())
    if taken.times_ns:
        return taken.between(clock.begin_ns, clock.end_ns) / steps
    return None


def keep_raw(plan: Plan, setting: Setting, folder: Path) -> None:
    """The server's data, which any later version can be asked about, and the training's own files."""
    setting.raw.mkdir(parents=True, exist_ok=True)
    with tarfile.open(setting.raw / f"{plan.key}.tar.gz", "w:gz") as archive:
        for name in ("data", "planted", "server.log", "agent.log"):
            archive.add(folder / name, name, filter=lambda one: None if one.name.endswith("/read") else one)


def ask_again(plan: Plan, setting: Setting) -> Said:
    """What this version says of the raw data of an earlier run."""
    with tempfile.TemporaryDirectory(prefix="roofline-causes-") as name:
        folder = Path(name)
        with tarfile.open(setting.raw / f"{plan.key}.tar.gz") as archive:
            archive.extractall(folder)
        site = Site(folder)
        try:
            site.server()
            return ask(site, JOB)
        finally:
            site.stop()


def commit() -> str:
    git = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True) if shutil.which("git") else None
    return done.stdout.strip() if done and not done.returncode else ""
