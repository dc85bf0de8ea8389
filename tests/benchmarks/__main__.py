"""Measures the budget table on this machine, now; prints each line as soon as it is known."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator

from . import (
    agent,
    hooks,
    models,
    one_process,
    page,
    page_ingest,
    page_memory,
    page_slowed,
    recordings,
    rich_jobs,
    server,
    slowdown,
    streams,
)
from .site import REPOSITORY, Result

TORCH = REPOSITORY / ".venv-torch" / "bin" / "python"  # what `make` sets up


def benchmarks(options: argparse.Namespace) -> dict[str, Callable[[], Result | Iterator[Result]]]:
    rounds = slowdown.QUICK if options.quick else slowdown.ROUNDS

    def slowed(training: slowdown.Training, python: str) -> Callable[[], Iterator[Result]]:
        return lambda: slowdown.slowdown(training, python, rounds, options.against, options.interval)

    def switched(training: slowdown.Training) -> Callable[[], Iterator[Result]]:
        return lambda: one_process.slowdown(
            training, options.torch_python, options.quick, options.against[0], options.interval
        )

    switched_torch = {f"slowdown-{name}": switched(one) for name, one in slowdown.TORCH.items()}
    torch = {f"pair-{name}": slowed(one, options.torch_python) for name, one in slowdown.TORCH.items()}
    tensorflow = {
        f"pair-{name}": slowed(one, options.training_python) for name, one in slowdown.TENSORFLOW.items()
    }
    return {
        "mark": agent.mark_cost,
        "hooks-torch": hooks.torch_hooks,
        "hooks-tensorflow": hooks.tensorflow_hooks,
        "hooks-keras": hooks.keras_hooks,
        "agent-1hz": lambda: agent.agent_cost(1.0, 0.003),
        "agent-10hz": lambda: agent.agent_cost(0.1, 0.02),
        "agent-64-ranks": lambda: agent.agent_cost(0.1, 0.015, 64),
        **switched_torch,
        **torch,
        **tensorflow,
        "ingest": server.durable_ingest,
        "streams": streams.many_streams,
        "streams-back": streams.back_at_once,
        "greedy": streams.beside_greedy,
        "visible": agent.visible_after,
        "report": server.long_report,
        "report-rich-64": rich_jobs.report_of_long_job,  # its timeline, too
        "report-rich-1000": rich_jobs.report_of_wide_job,
        "page-1000": page.wide_job,
        "page-64": page.long_job,
        "page-ingest": page_ingest.beside_pages,
        "page-visible": page.mark_to_pixel,
        "page-slowed": page_slowed.slowed_rank,
        "page-memory": lambda: page_memory.while_looked_at(options.minutes),
        "page-memory-1000": lambda: page_memory.of_large_job(options.minutes),
        "models": models.answers,
        "memory": server.memory_under_load,
        "import": recordings.read_large_file,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training-python", default=sys.executable, help="interpreter that has TensorFlow")
    parser.add_argument("--torch-python", default=str(TORCH), help="interpreter that has PyTorch")
    parser.add_argument("--quick", action="store_true", help="one pair of processes for each slowdown")
    parser.add_argument("--only", nargs="*", help="names of benchmarks to run")
    setups = ", ".join(slowdown.SETUPS)
    parser.add_argument(
        "--against", nargs="*", default=["default"], metavar="SETUP", help=f"slowdown of what: {setups}"
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=slowdown.INTERVAL_S,
        help="seconds between samples, for the slowdown",
    )
    parser.add_argument(
        "--minutes", type=float, default=25.0, help="how long page-memory looks (default %(default)g)"
    )
    options = parser.parse_args()
    known = benchmarks(options)
    # Pairs of processes say what a cost comes from; how large it is, one process says better.
    chosen = options.only or [name for name in known if not name.startswith("pair-torch")]
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {agent.load()}\n"
    )
    for name in chosen:
        found = known[name]()
        for result in [found] if isinstance(found, Result) else found:
            print_line(result)
    return 0


def print_line(result: Result) -> None:
    verdict = "within" if result.met else "OVER  "
    print(f"{verdict}  {result.what:<52} {result.measured:<38} budget {result.budget}", flush=True)
    print(f"        {result.beside}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
