"""Command line of the agent."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .errors import AgentError

if TYPE_CHECKING:
    from .wrapper import Watcher

# Heavy imports (grpc) stay inside the commands: `run` starts one process per rank and must be light.

app = typer.Typer(
    name="roofline-agent",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=False,
    help="Watch the training ranks of this node and stream what is seen to roofline-server.\n\n"
    "Without a command: be the daemon.\n\n"
    "Examples:\n\n"
    "  roofline-agent                                   one per node, server on this machine\n\n"
    "  roofline-agent --server head:7642 --interval 0.1\n\n"
    "  roofline-agent run --job 42 -- python train.py   one per rank\n\n"
    "  roofline-agent hooks                             the same for all Python processes, by PYTHONPATH\n\n"
    "  roofline-agent calibrate                         once per node, while idle\n\n"
    "  roofline-agent doctor                            what works here, and why not\n\n"
    "  roofline-agent import --job 42 perf.csv          send what another tool recorded\n\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 wrong configuration, 4 server unreachable, "
    "6 a directory, socket or lock cannot be had.",
)

MAX_RANK = 10_000_000
MAX_OFFSET_S = 100 * 365 * 86_400.0

ServerOption = Annotated[
    str | None, typer.Option("--server", help="HOST:PORT of roofline-server [127.0.0.1:7642]")
]
IntervalOption = Annotated[float | None, typer.Option(help="seconds between samples, 0.01 to 60 [1.0]")]
JobOption = Annotated[str | None, typer.Option(help="job id of ranks whose environment names none")]
SocketOption = Annotated[str | None, typer.Option(help="Unix socket for marks")]
StateOption = Annotated[str | None, typer.Option(help="directory for spool, identity and ceilings")]
SourcesOption = Annotated[str | None, typer.Option(help="only these sources, comma-separated")]
ConfigOption = Annotated[Path | None, typer.Option(help="TOML file with the same settings")]


def _load(config: Path | None, **flags: Any) -> Any:
    from .config import load

    if flags.get("sources"):
        flags["sources"] = flags["sources"].split(",")
    return load(flags, os.environ, config)


@app.callback(invoke_without_command=True)
def daemon(
    context: typer.Context,
    server: ServerOption = None,
    interval: IntervalOption = None,
    job: JobOption = None,
    socket: SocketOption = None,
    state: StateOption = None,
    sources: SourcesOption = None,
    config: ConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="warnings only")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"roofline-agent {__version__}")
        raise typer.Exit
    settings = {
        "server": server,
        "interval": interval,
        "job": job,
        "socket": socket,
        "state": state,
        "sources": sources,
    }
    context.obj = (config, settings)
    if context.invoked_subcommand is not None:
        return
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s roofline-agent %(levelname)s %(message)s",
    )
    # gRPC's C core would print its own view of every error beside ours; not set for ranks, only here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from .daemon import Daemon

    agent = Daemon(_load(config, **settings))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(help="the command that is one rank")],
    job: Annotated[str | None, typer.Option(help="job id of this rank")] = None,
    role: Annotated[str | None, typer.Option(help="ps, worker, chief, evaluator, horovod, ddp")] = None,
    rank: Annotated[int | None, typer.Option(min=0, max=MAX_RANK, help="number within the role")] = None,
    name: Annotated[str | None, typer.Option(help="free name shown in reports")] = None,
    kernels: Annotated[bool, typer.Option(help="record oneDNN and MKL kernels from verbose lines")] = True,
    steps: Annotated[bool, typer.Option(help="mark steps by hooks in the training's Python")] = True,
    step_regex: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="read steps from lines of the output that match"),
    ] = None,
    ncu: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="count the GPU kernels of these steps with Nsight Compute"),
    ] = None,
    horovod_timeline: Annotated[
        bool,
        typer.Option(
            envvar="ROOFLINE_HOROVOD_TIMELINE", help="see what Horovod executes; give it to all ranks or none"
        ),
    ] = False,
) -> None:
    """Start one rank so that its steps and kernels are seen; everything else about it stays as it is.

    Example:  roofline-agent run --job 42 -- python train.py --batch 64

    Example:  roofline-agent run --ncu 100-102 -- python train.py

    Example:  roofline-agent run --step-regex 'step (?P<step>[0-9]+)' -- ./train

    --step-regex is for programs whose steps no hook sees: a regular expression of Python's, looked for in
    each line of stdout and stderr (ended by \\n or \\r, its first 4096 bytes; stderr then comes through here
    too). Its group `step` is the number of the step that has ended when the line is written, a group
    `examples`, if there is one, the examples of each step. If the log leaves steps out, those between two
    lines are spread evenly; a number that goes back begins a new count; steps before the first line are not
    known. Hooks mark no steps meanwhile. Python's own output is unbuffered (PYTHONUNBUFFERED=1); for other
    programs that keep lines back see stdbuf(1).

    --ncu runs each kernel of these steps several times (only these steps get slower, by far), at the clocks
    it would have anyway (--clock-control none), and sends what it found when the command ends. Steps count
    from 0; step 0 cannot be profiled. oneDNN and MKL kernels are not recorded meanwhile. Kernels of
    collectives (NCCL, RCCL, NVSHMEM, ...) are left out: run again they would wait for ever. With several
    ranks profile one; the others wait for it at their next collective, maybe longer than a short NCCL timeout
    allows. If ncu cannot be used, it is said why and what to do, and the command runs without it.

    --horovod-timeline lets Horovod write its timeline into a file without a name and reads it from there:
    fused collectives, negotiation, copies and cycles, as rank 0 sees them. It costs: Horovod's writer spins
    on a core of rank 0, which slows a training that needs all cores by a quarter and more. A job in which
    only some ranks have it hangs in its first step, for Horovod needs HOROVOD_TIMELINE in all ranks or in
    none. A timeline that you ask for yourself (HOROVOD_TIMELINE) is read without this option.

    Exit code: the command's own; 126 or 127 when it cannot be started.
    """
    from . import launch, wrapper
    from .rank_environment import Naming

    watchers = _watchers(horovod_timeline)
    profiled = _steps_to_profile(ncu, steps, step_regex)
    pattern = _step_pattern(step_regex)
    try:
        settings = context.obj[1]
        environ = dict(os.environ)
        if settings["socket"]:
            environ["ROOFLINE_SOCKET"] = settings["socket"]
        naming = Naming(job or settings["job"], role, rank, name)
        status = wrapper.run(
            command,
            naming,
            environ,
            lambda text: print(text, file=sys.stderr),
            kernels,
            steps,
            profiled=profiled,
            watchers=watchers,
            step_pattern=pattern,
        )
    except launch.StartError as error:
        print(f"roofline-agent run: {error}", file=sys.stderr)
        raise typer.Exit(error.status) from None
    raise typer.Exit(launch.end_like(status))


def _watchers(horovod_timeline: bool) -> Sequence[Watcher]:
    if not horovod_timeline and not os.environ.get("HOROVOD_TIMELINE"):
        return ()
    from .horovod.timeline import watch

    found = watch(os.environ, horovod_timeline, lambda text: print(text, file=sys.stderr))
    return () if found is None else (found,)


def _step_pattern(text: str | None) -> Any:
    from .step_log import PatternError, compile_pattern

    if text is None:
        return None
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise typer.BadParameter(str(error), param_hint="--step-regex") from None


def _steps_to_profile(text: str | None, steps: bool, step_regex: str | None) -> tuple[tuple[int, int], ...]:
    from .ncu.steps import StepsError, parse

    if text is None:
        return ()
    if step_regex is not None:
        raise typer.BadParameter(
            "needs the hooks that mark steps: leave --step-regex out", param_hint="--ncu"
        )
    if not steps:
        raise typer.BadParameter("needs the hooks that mark steps: leave --no-steps out", param_hint="--ncu")
    try:
        return parse(text)
    except StepsError as error:
        raise typer.BadParameter(str(error), param_hint="--ncu") from None


@app.command()
def hooks() -> None:
    """Print the folder that goes on PYTHONPATH where all Python processes shall mark their steps.

    Example:  export PYTHONPATH="$(roofline-agent hooks)${PYTHONPATH:+:$PYTHONPATH}"

    For clusters, in a login profile, a job prolog or a container image, instead of `roofline-agent run`
    before each rank: steps are marked, kernels of oneDNN and MKL are not recorded. Costs 2 ms at the start of
    a Python process; hooks load once TensorFlow, Keras, torch or Horovod is imported, do nothing without an
    agent, and stay away with ROOFLINE_DISABLE=1 and under python -E, -I and -S.
    """
    print(Path(__file__).parent / "hooks" / "inject")


@app.command("import")
def import_(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help='files that tools wrote; "-" is standard input')],
    job: Annotated[str | None, typer.Option(help="job id to send them to [recorded]")] = None,
    role: Annotated[str, typer.Option(help="ps, worker, chief, evaluator, horovod, ddp")] = "worker",
    rank: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_RANK, help="number within the role [what the file says, else 0]"),
    ] = None,
    step_time_offset: Annotated[
        float,
        typer.Option(help="seconds added to the recording's times, so that they fall on the job's steps"),
    ] = 0.0,
    host: Annotated[str | None, typer.Option(help="node it was recorded on [this one]")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what is in the files, send nothing")
    ] = False,
    output: Annotated[
        str, typer.Option("--format", help="text or json (one object a line and file)")
    ] = "text",
) -> None:
    """Send what other tools recorded to the server, as if an agent had sampled it.

    Read are: ncu CSV and .ncu-rep, nvprof, perf stat (any form), LIKWID, oneDNN and MKL verbose logs, Horovod
    timelines, PyTorch (Kineto) traces, DCGM exporter text, tf_cnn_benchmarks and Keras logs, STREAM and ERT
    results (as ceilings). The format is told by the content. A file sent twice counts once.

    Examples:

      roofline-agent import --dry-run --format json ncu.csv | jq .kernels

      roofline-agent import --job 42 --role worker --rank 3 timeline.json perf.csv

      perf stat -x, -a sleep 10 2>&1 | roofline-agent import --job 42 -

    Exit codes: 0 ok, 1 a file could not be read (the others are) or none gave a value, 2 usage,
    4 server unreachable.
    """
    from .recorded import command

    if not abs(step_time_offset) <= MAX_OFFSET_S:
        raise typer.BadParameter("more than a hundred years", param_hint="--step-time-offset")
    if host is not None and not (0 < len(host) <= 256 and host.isprintable()):
        raise typer.BadParameter("1 to 256 printable characters", param_hint="--host")
    if output not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--format")
    config = _load(context.obj[0], **context.obj[1])
    # gRPC's C core would print its own view of every error beside ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    order = command.Order(
        tuple(files), job or config.job, role, rank, step_time_offset, host, dry_run, output, config.server
    )
    try:
        failed = command.carry_out(order, sys.stdout, _say)
    except KeyboardInterrupt:
        _say("interrupted; what was sent is kept, and sending it again adds only the rest")
        raise
    if failed:
        raise typer.Exit(1)


def _say(text: str) -> None:
    print(f"roofline-agent import: {text}", file=sys.stderr)


@app.command()
def calibrate(
    context: typer.Context,
    quick: Annotated[bool, typer.Option(help="a second per ceiling less, wider spread")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Measure this node's ceilings (peak FLOP/s, DRAM bandwidth) and keep them for the daemon.

    Takes some seconds of all cores: run it while the node is idle. A running agent takes the result up.
    """
    from .calibrate import calibrate as measure
    from .calibrate import store
    from .config import default_state
    from .daemon import ceilings_path

    config = _load(context.obj[0], **context.obj[1])
    state = Path(config.state) if config.state else default_state()
    result = measure(None if as_json else _show_ceiling, quick)
    path = ceilings_path(state)
    store.save(result, path)
    if as_json:
        print(json.dumps({**result._asdict(), "ceilings": [c._asdict() for c in result.ceilings]}, indent=2))
    else:
        print(f"kept in {path}")


def _show_ceiling(ceiling: Any) -> None:
    unit = "GB/s" if ceiling.unit == "byte/s" else "GFLOP/s"
    print(
        f"{ceiling.name:<16} {ceiling.value / 1e9:9.1f} {unit:<8} spread {ceiling.spread:5.1%}",
        flush=True,
    )


@app.command()
def doctor(
    context: typer.Context,
    output: Annotated[str, typer.Option("--format", help="text or json")] = "text",
) -> None:
    """List each source and part: works, or why not, what to do, and what of a report it fills.

    Example:  roofline-agent doctor --format json | jq '.[] | select(.works | not)'

    Exit code: 0 when samples can be taken, else 1.
    """
    from .doctor import examine

    if output not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--format")
    findings = examine(_load(context.obj[0], **context.obj[1]), os.environ)
    if output == "json":
        print(json.dumps([f._asdict() for f in findings], indent=2))
    else:
        width = max(len(f.what) for f in findings) + 1
        for finding in findings:
            print(f"{'ok ' if finding.works else 'off'}  {finding.what:<{width}} {finding.text}")
            if finding.advice:
                print(f"{'':<{width + 6}}{'more' if finding.works else 'fix'}: {finding.advice}")
            if finding.fills:
                print(f"{'':<{width + 6}}{'fills' if finding.works else 'would fill'}: {finding.fills}")
    if not any(f.works for f in findings if f.what.startswith("source ")):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    from .calibrate.errors import CalibrationError

    try:
        app()
    except AgentError as error:
        print(f"roofline-agent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except CalibrationError as error:
        print(f"roofline-agent: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        print(f"roofline-agent: the output cannot be written ({error.strerror})", file=sys.stderr)
        # What is still buffered goes nowhere; Python would write it at its exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
