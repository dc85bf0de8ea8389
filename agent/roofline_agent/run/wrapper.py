"""`roofline-agent run -- CMD`: starts one rank and stays out of its way.

The command keeps its stdin, stderr, terminal, process group and exit status; signals reach it (launch.py,
witness.py). Its stdout goes through a filter that takes out the verbose lines this wrapper asked for,
byte-exact otherwise (output.py, output_loop.py); where both are one file, its stderr goes with it. Nothing
here may ever hold the training up: without an agent, or with a slow one, kernel records are dropped and the
time they cover is not claimed (agent_link.py).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .job_name import announcement, with_local_job
from .output import STALL_S, takes_more
from .rank_environment import Naming, RecordedKernels
from .step_log import StepLog
from .wrapped_command import Watcher, WrappedCommand

if TYPE_CHECKING:
    from ..ncu.session import Session

SOON_NS, SEEN_S = 2_000_000_000, 0.1
ENDING_S = 0.5  # in which a key at the terminal, which ends ncu at once, is noticed here too
STDERR = 2
NOT_SEEN = "roofline-agent: the command ended before the agent saw it, so it may not be recorded"
NO_AGENT = "roofline-agent: no agent runs on this node, nothing is recorded until one is started"


def run(
    command: Sequence[str],
    naming: Naming,
    environ: Mapping[str, str],
    notify: Callable[[str], None],
    kernels: RecordedKernels = RecordedKernels("sampled"),  # noqa: B008 - never written to
    steps: bool = True,
    profiled: tuple[tuple[int, int], ...] = (),
    watchers: Sequence[Watcher] = (),
    step_pattern: re.Pattern[str] | None = None,
    quiet: bool = False,
    traced: str = "",
) -> int:
    """Run the command as one rank; its exit status, negative when a signal ended it.

    notify: shows the user a line.
    profiled: ranges of steps whose GPU kernels ncu counts; where it cannot, the user is notified and the
    command runs without. step_pattern: steps are read from what the command prints (step_log.py); its stderr
    then comes through here too. quiet: the user is not told which job this is. traced: steps that the
    framework's profiler records, "100-102"; "": none. Raises StartError when it cannot be started.
    """

    def show(text: str) -> None:
        # Whoever reads this may have gone, or not read it; the command has not.
        with contextlib.suppress(OSError, ValueError):
            if takes_more(STDERR, STALL_S):
                notify(text)

    session = _profiler(command, profiled, environ, show) if profiled else None
    log = StepLog(step_pattern, show) if step_pattern else None
    environ = with_local_job(environ, naming)
    wrapped = WrappedCommand(command, naming, environ, watchers, log, show)
    begin_ns = time.monotonic_ns()
    wrapped.start(kernels, steps, session)
    if traced and (why := wrapped.tracing.ask(traced)):
        show(f"roofline-agent: the command runs without a trace: {why}")
    wrapped.forward_signals()
    words = "" if quiet else announcement(command, wrapped.environ)
    if not wrapped.link.connected:
        words = ""
        show(NO_AGENT)
    elif words:
        show(words)
    status = wrapped.wait()
    if session is not None and session.started:
        status = wrapped.send_profiled(session)
    elif session is not None and wrapped.ending.wait(ENDING_S):
        session.close()  # what ended ncu was meant for the command
    elif session is not None:
        show("roofline-agent: ncu ended before it started the command, which now runs without it")
        session.close()
        wrapped.start(kernels, steps, None)
        status = wrapped.wait()
    ended_ns = time.monotonic_ns()
    wrapped.close()
    wrapped.send_exit(status, ended_ns)
    if words and status and ended_ns - begin_ns < SOON_NS and not wrapped.link.is_seen(SEEN_S):
        show(NOT_SEEN)
    return status


def _profiler(
    command: Sequence[str],
    profiled: tuple[tuple[int, int], ...],
    environ: Mapping[str, str],
    notify: Callable[[str], None],
) -> Session | None:
    """A session of ncu; None when ncu cannot be used, of which the user is notified."""
    from ..ncu.session import Session, Unusable, check

    if shutil.which(command[0], path=environ.get("PATH")) is None:
        return None  # starting it will say so, and better
    try:
        ncu, metrics = check(environ)
        return Session(ncu, metrics, profiled, notify)
    except Unusable as error:
        notify(f"roofline-agent: the command runs without ncu: {error}")
    except OSError as error:
        notify(f"roofline-agent: the command runs without ncu: {error.strerror or error}")
    return None
