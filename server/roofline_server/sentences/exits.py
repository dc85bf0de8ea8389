"""How ranks and jobs ended, in words."""

from __future__ import annotations

from .wording import many

RUNNING = "running"
NOTHING_KNOWN = "ended (exit codes not known)"
LAUNCHER_FINISHED = "finished (exit 0 of what started its ranks)"  # one of these may have failed even so
RECORDED = "recorded"  # of files: no process was watched
MEMORY = " (out of memory?)"  # the commonest reason for a SIGKILL that nobody sent
BY_SHELL = 128 + 9  # how a shell reports a SIGKILL


def exited(status: int, signal: str, last_step: int | None) -> str:
    """signal: the name of the one that ended it; "": none did."""
    how = f"killed by {signal}" if signal else f"exited with {status}"
    asked = MEMORY if signal == "SIGKILL" or status == BY_SHELL else ""
    return f"{how}{_after(last_step)}{asked}"


def ended(last_step: int | None, launched: bool) -> str:
    """launched: it is known how what started it ended."""
    why = " (only what started it was given that)" if launched else ""
    return f"ended{_after(last_step)}, exit code not known{why}"


def silent(moment: str, last_step: int | None = None) -> str:
    """moment: "2024-05-06 12:34:56 UTC"."""
    return f"no data since {moment}{_after(last_step)}"


def failed(rank: str, words: str, others: int) -> str:
    """words: of `exited`; others: how many more ranks failed."""
    return f"failed: {rank} {words}{_more(others)}"


def running_without(rank: str, words: str, others: int) -> str:
    return f"running, but {rank} {words}{_more(others)}"


def finished(unknown: int) -> str:
    """unknown: of how many ranks the exit code is not known."""
    ranks = many(unknown, "rank")
    return f"finished (exit 0; unknown for {ranks})" if unknown else "finished (exit 0)"


def launcher_failed(words: str) -> str:
    """words: of `exited`."""
    return f"failed: the launcher of its ranks {words}"


def started_again(state: str, rank: str, words: str) -> str:
    """state: now; words: of `exited`, of the process that failed first."""
    return f"{state}, started again after {rank} {words}"


def by_slurm(state: str, code: str, has_failed: bool) -> str:
    """state: COMPLETED, FAILED, TIMEOUT, ...; code: "3", of a signal "0:15"; "": not known."""
    if state == "COMPLETED":
        return finished(0)
    if has_failed:
        return f"failed: Slurm says {state}" + (f" (exit {code})" if code else "")
    return f"ended: Slurm says {state}"


def _after(last_step: int | None) -> str:
    return "" if last_step is None else f" after step {last_step}"


def _more(others: int) -> str:
    return f", and {others} more" if others else ""
