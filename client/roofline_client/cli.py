"""Command line of the client: the table of commands, and errors as exit codes."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from . import __version__, interrupts
from .commands.bench import bench
from .commands.breakdown import breakdown
from .commands.compare import compare
from .commands.efficiency import efficiency
from .commands.export import export
from .commands.jobs import jobs
from .commands.join import join
from .commands.machines import machines
from .commands.mcp import mcp
from .commands.options import DEFAULT_SERVER, EXIT_CODES, discard_output
from .commands.page import page
from .commands.plot import plot
from .commands.publish import publish
from .commands.report import report, with_seconds
from .commands.roofline import roofline
from .commands.steps import steps
from .commands.stragglers import stragglers
from .commands.timeline import timeline
from .commands.trace import trace
from .commands.trajectory import trajectory
from .commands.what_if import what_if
from .errors import ClientError

# What only an extra installs.
EXTRAS = {
    "client": ("rich", "matplotlib", "pandas", "numpy"),
    "mcp": ("mcp",),
    "mlflow": ("mlflow",),
    "tensorboard": ("tensorboardX",),
    "wandb": ("wandb",),
    "otlp": ("opentelemetry",),
    "page": ("starlette", "uvicorn", "sse_starlette", "jinja2", "plotly", "python_multipart"),
}
# A disk that is full or fails, a quota that is used up, a file as large as it may be.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Command(NamedTuple):
    function: Callable[..., Any]
    examples: tuple[str, ...]  # behind `roofline-client `


COMMANDS = (
    Command(jobs, ("jobs --server head:7642", "jobs --format json | jq '.jobs[0]'")),
    Command(
        report,
        (
            "report 42",
            "report last --watch 5",
            "report --job 42 --full",
            "report $SLURM_JOB_ID --brief --wait 10",
            "report --job 42 --steps 10: --plot roofline.png",
            "report --job 42 --format html > 42.html",
            "report --job 42 --format json | jq .verdict",
        ),
    ),
    Command(compare, ("compare 41 42", "compare 41 42 --format csv", "compare 41 42 --format md")),
    Command(
        steps,
        (
            "steps --job 42",
            "steps --job 42 --rank worker:0 --steps 100:199 --format csv > steps.csv",
            "steps --job 42 --last 100",
        ),
    ),
    Command(stragglers, ("stragglers --job 42", "stragglers --job 42 --from 1000 --format json")),
    Command(
        what_if,
        (
            "what-if --job 42 --ranks 8",
            "what-if --job 42 --ps 2 --batch 64 --format json",
            "what-if --job 42 --fix ps:0",
        ),
    ),
    Command(
        roofline,
        (
            "roofline --job 42 --kind hierarchical --points phase",
            "roofline --job 42 --kind time --points kernel --rank worker:0",
            "roofline --experiment conv2d --kind time --over batch --format csv > sweep.csv",
        ),
    ),
    Command(breakdown, ("breakdown --job 42", "breakdown --job 42 --by rank --steps 10:90 --format json")),
    Command(
        efficiency,
        (
            "efficiency --job 42",
            "efficiency --job 42 --model-flops 6.2e9 --precision bf16",
            "efficiency 42 --parameters 1.3e9 --tokens-per-example 2048 --layers 24 --hidden 2048 --causal",
            "efficiency --job 42 --format json | jq .whole.measures",
        ),
    ),
    Command(
        trajectory,
        (
            "trajectory --experiment scaling --over nodes",
            "trajectory --job 41 --job 42 --over batch --role worker --format csv",
        ),
    ),
    Command(
        plot,
        (
            "plot --job 42 -o 42.png",
            "plot --job 42 --kind account --caption -o 42.png",
            "plot --job 42 --kind time --points kernel -o kernels.svg",
            "plot --experiment scaling --kind trajectory --over nodes -o scaling.pdf",
        ),
    ),
    Command(machines, ("machines", "machines node1 --history", "machines --compare node1@1 node1@2 node2")),
    Command(
        timeline,
        (
            "timeline --job 42 --steps 100:120 -o 42.json.gz",
            "timeline --job 42 --rank worker:0 --kernels -o worker0.json",
        ),
    ),
    Command(mcp, ("mcp", "mcp --server head:7642")),
    Command(
        publish,
        (
            "publish 42 --mlflow http://head:5000",
            "publish --job 42 --tensorboard ./runs",
            "publish 42 --wandb roofline",
            "publish 42 --otlp http://head:4318",
        ),
    ),
    Command(trace, ("trace --job 42 --steps 3", "trace last --rank worker:0 --format json")),
    Command(page, ("page", "page --server head:7642 --listen 127.0.0.1:8080")),
    Command(join, ("join head:7642 -", "join 10.0.0.5:7642 -")),
    Command(export, ("export --job 42 -o raw-42", "export --job 42 -o raw-42 --force")),
)

app = typer.Typer(
    name="roofline-client",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Ask a roofline server about jobs.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-client jobs\n"
    "  roofline-client report --job 42\n"
    "  roofline-client report --job 42 --format json | jq .verdict\n"
    "  roofline-client report --job 42 --steps 10: --plot roofline.png\n"
    "  roofline-client compare 41 42\n"
    "  roofline-client stragglers --job 42\n"
    "  roofline-client what-if --job 42 --ranks 8\n"
    "  roofline-client roofline --job 42 --kind hierarchical\n"
    "  roofline-client breakdown --job 42\n"
    "  roofline-client efficiency --job 42\n"
    "  roofline-client trajectory --experiment scaling --over nodes\n"
    "  roofline-client plot --job 42 --kind roofline -o 42.png\n"
    "  roofline-client machines --compare node1@1 node1@2\n"
    "  roofline-client steps --job 42 --rank worker:0 --format csv > steps.csv\n"
    "  roofline-client timeline --job 42 -o 42.json.gz\n"
    "  roofline-client trace --job 42 --steps 3\n"
    "  roofline-client bench net --from node1 --to node2\n\n"
    "Variables: ROOFLINE_SERVER is the default of --server. NO_COLOR turns colours off, COLUMNS sets the "
    "width of tables on a terminal, PYTHONIOENCODING their encoding.\n\n"
    f"{EXIT_CODES}",
)


@app.callback(invoke_without_command=True, no_args_is_help=False)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"roofline-client {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        # A function called by hand reads no environment.
        jobs(os.environ.get("ROOFLINE_SERVER") or DEFAULT_SERVER)


for command in COMMANDS:
    # Behind \b lines stay as they are: an example that is broken in two cannot be copied.
    examples = "".join(f"  roofline-client {example}\n" for example in command.examples)
    app.command(epilog=f"Examples:\n\n\b\n{examples}\n{EXIT_CODES}")(command.function)
app.add_typer(bench)


def _allow_any_encoding() -> None:
    """A terminal or locale that lacks a character gets a "?" for it, instead of nothing at all."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _have_stdout() -> None:
    """Where it is closed (`>&-`) Python has none: one to which nothing can be written, so that this is said
    where something is, and no file or connection gets its number."""
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.open(os.devnull, os.O_RDONLY), "w")))


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    interrupts.raise_once()
    try:
        _run()
    except SystemExit:
        if not interrupts.came():
            raise
    if interrupts.came():
        interrupts.leave()


def _run() -> None:
    try:
        _have_stdout()
        _allow_any_encoding()
        app(with_seconds(sys.argv[1:]))
    except ClientError as error:
        print(f"roofline-client: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in EXTRAS.items() if missing in modules), "")
        if not extra:
            raise
        advice = f"pip install 'roofline-profiler[{extra}]'"
        print(f"roofline-client: {missing} is not installed; {advice}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(interrupts.EXIT_CODE)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        print(f"roofline-client: the output cannot be written ({error.strerror})", file=sys.stderr)
        discard_output()
        sys.exit(1)
