"""Command line of the agent: the table of commands."""

from __future__ import annotations

import typer

# A command's own imports stay inside its function: `run` starts one process per rank and must be light.
from .commands import run
from .commands.calibrate import calibrate
from .commands.daemon import daemon
from .commands.doctor import doctor
from .commands.hooks import hooks
from .commands.import_files import import_files
from .commands.join import join
from .commands.slurm_epilog import slurm_epilog
from .commands.validate import validate
from .commands.webhook import webhook

app = typer.Typer(
    name="roofline-agent",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=False,
    help="Watch the training ranks of this node and stream their counters and steps to roofline-server.\n\n"
    "Without a command it runs as the daemon.\n\n"
    "Examples:\n\n"
    # Behind \b lines stay as they are: an example that is broken in two cannot be copied.
    "\b\n"
    "  roofline-agent                                  one per node\n"
    "  roofline-agent join head:7642 - <<< TOKEN       once per node, with tokens\n"
    "  roofline-agent --server head:7642 --interval 0.1\n"
    "  roofline-agent run --job 42 -- python train.py  one per rank\n"
    "  roofline-agent hooks                            for all Python processes\n"
    "  roofline-agent calibrate                        once per node, while idle\n"
    "  roofline-agent doctor                           what works here and what does not\n"
    "  roofline-agent validate                         whether the counts are right\n"
    "  roofline-agent import --job 42 perf.csv         what another tool recorded\n\n"
    "Every setting is also a variable (ROOFLINE_SERVER, ROOFLINE_INTERVAL, ROOFLINE_JOB, ROOFLINE_SOCKET, "
    "ROOFLINE_STATE, ROOFLINE_SOURCES, ROOFLINE_OTLP), or stands in the file of --config or ROOFLINE_CONFIG. "
    "ROOFLINE_SPOOL_MB, which has no option, bounds what batches take on disk [256 MiB]. Where the daemon "
    "has a --socket of its own, ranks need it, too: `roofline-agent --socket X run ...`, or "
    "ROOFLINE_SOCKET.\n\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 wrong configuration, 4 server unreachable, "
    "6 a directory, socket, lock or idle node is not available.",
)
app.callback(invoke_without_command=True)(daemon)
# What comes after a rank's command is the command's own.
RUN_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
app.command("run", help=run.HELP, context_settings=RUN_SETTINGS)(run.run)
app.command()(hooks)
app.command("import")(import_files)
app.command()(join)
app.command()(calibrate)
app.command()(doctor)
app.command()(validate)
app.command()(webhook)
app.command(hidden=True)(slurm_epilog)
