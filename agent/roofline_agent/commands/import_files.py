"""`roofline-agent import`: recorded files of other tools, sent to the server."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated

import typer

from .options import check_format, load_config, silence_grpc
from .progress import ProgressLine
from .run import MAX_RANK

MAX_OFFSET_S = 100 * 365 * 86_400.0
KEPT_BYTES = 32 << 20  # of freed memory at most; the largest that glibc takes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def import_files(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help='files to import; "-" is standard input')],
    job: Annotated[str | None, typer.Option(help="job id to send them to [recorded]")] = None,
    server: Annotated[
        str | None, typer.Option(help="HOST:PORT of roofline-server [as given before the command]")
    ] = None,
    role: Annotated[str, typer.Option(help="ps, worker, chief, evaluator, horovod, ddp")] = "worker",
    rank: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_RANK, help="number within the role [from the file, else 0]"),
    ] = None,
    step_time_offset: Annotated[
        float,
        typer.Option(help="seconds added to the recording's times, so that they fall on the job's steps"),
    ] = 0.0,
    host: Annotated[
        str | None, typer.Option(help="node it was recorded on [as the file says, else this one]")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what is in the files, send nothing")
    ] = False,
    launches: Annotated[
        bool, typer.Option("--launches", help="also list every launch; with --dry-run --format json")
    ] = False,
    output: Annotated[
        str, typer.Option("--format", help="text or json (one object per line, one line per file)")
    ] = "text",
) -> None:
    """Import files from other tools, as if an agent had sampled them.

    It reads ncu CSV and .ncu-rep, nvprof, nsys CSV and .sqlite, rocprof CSV, JSON and .db, perf stat (any
    form), LIKWID, oneDNN and MKL verbose logs, PyTorch traces, XPlane, OpenTelemetry traces (OTLP JSON),
    Horovod timelines, DCGM, nvidia-smi, NCCL inspector; logs of tf_cnn_benchmarks, Keras, Hugging Face,
    Lightning, Megatron, DeepSpeed, torchtitan and MLPerf. Results of STREAM, ERT, HPL, nccl-tests and
    nvbandwidth become ceilings. The format is recognised by the content. A file that is sent twice counts
    once.

    Examples:

    \b
      roofline-agent import --dry-run --format json ncu.csv | jq .kernels
      roofline-agent import --job 42 --role worker --rank 3 timeline.json
      perf stat -x, -a sleep 10 2>&1 | roofline-agent import --job 42 -

    Exit codes: 0 ok, 1 a file could not be read (the others were) or no file gave a value, 2 usage,
    4 server unreachable.
    """
    _save_time()
    from ..config import known_servers
    from ..recorded import command
    from ..recorded.request import ImportRequest

    _check_options(step_time_offset, host, output, launches, job)
    config = load_config(context, server=server)
    silence_grpc()

    line = ProgressLine()

    def report(text: str) -> None:
        line.clear()
        print(f"roofline-agent import: {text}", file=sys.stderr)

    request = ImportRequest(
        files=tuple(files),
        job=job or config.job,
        role=role,
        rank=rank,
        offset_s=step_time_offset,
        host=host,
        dry_run=dry_run,
        output=output,
        server=config.server,
        access=known_servers(config.state_directory()).known.get(config.server),
        launches=launches,
    )
    try:
        failed = command.import_files(request, sys.stdout, report, line.show)
    except KeyboardInterrupt:
        report("interrupted; what was sent is kept, and sending it again adds only the rest")
        raise
    finally:
        line.clear()
    if failed:
        raise typer.Exit(1)


def _save_time() -> None:
    """What libraries do that costs time in a process that reads block after block."""
    import ctypes

    # NumPy's linear algebra, of which nothing is used, starts a thread a core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        libc = ctypes.CDLL(None)
        # It gives the memory of a block back to the kernel and gets it again for the next, page by page.
        libc.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def _check_options(
    step_time_offset: float, host: str | None, output: str, launches: bool, job: str | None
) -> None:
    """Raises BadParameter for values that cannot be."""
    from ..ranks.identity import MAX_NAME

    if not abs(step_time_offset) <= MAX_OFFSET_S:
        raise typer.BadParameter("more than a hundred years", param_hint="--step-time-offset")
    if host is not None and not (0 < len(host) <= 256 and host.isprintable()):
        raise typer.BadParameter("1 to 256 printable characters", param_hint="--host")
    check_format(output)
    if launches and output != "json":
        raise typer.BadParameter("needs --format json", param_hint="--launches")
    if job is not None and len(job) > MAX_NAME:
        raise typer.BadParameter(f"longer than {MAX_NAME} characters", param_hint="--job")
