"""Command line of the agent."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from .commands import run
from .commands.calibrate import calibrate
from .errors import AgentError

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
    "Every setting is also a variable (ROOFLINE_SERVER, ROOFLINE_INTERVAL, ROOFLINE_JOB, ROOFLINE_SOCKET, "
    "ROOFLINE_STATE, ROOFLINE_SOURCES), or stands in the file of --config or ROOFLINE_CONFIG. Where the "
    "daemon has a --socket of its own, ranks must be told: `roofline-agent --socket X run ...`, or "
    "ROOFLINE_SOCKET.\n\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 wrong configuration, 4 server unreachable, "
    "6 a directory, socket, lock or idle node cannot be had.",
)

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


app.command(
    "run",
    help=run.HELP,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(run.run)


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
        typer.Option(min=0, max=run.MAX_RANK, help="number within the role [what the file says, else 0]"),
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


app.command()(calibrate)


@app.command()
def doctor(
    context: typer.Context,
    output: Annotated[str, typer.Option("--format", help="text or json")] = "text",
) -> None:
    """List each source and part: works, or why not, what to do, and what of a report it fills.

    Example:  roofline-agent doctor --format json | jq '.[] | select(.works | not)'

    Exit code: 0 when samples can be taken, else 1.
    """
    from .commands.doctor import examine

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
