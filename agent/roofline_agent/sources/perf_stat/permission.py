"""Why perf may not count, and what the owner of the node can do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PERFMON, _SYS_ADMIN = 38, 21  # linux/capability.h
_REFUSED = re.compile(r"Access to performance monitoring|[Pp]ermission|not permitted", re.MULTILINE)
_WRONG_KERNEL = re.compile(r"perf not found for kernel (\S+)")

CAPABLE = "or give the agent CAP_PERFMON"


def paranoid(proc: str) -> int | None:
    """kernel.perf_event_paranoid; None where it cannot be read."""
    try:
        with open(f"{proc}/sys/kernel/perf_event_paranoid") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _status(proc: str, key: str) -> str:
    try:
        with open(f"{proc}/self/status") as file:
            return next((line.split()[1] for line in file if line.startswith(f"{key}:")), "")
    except (OSError, IndexError):
        return ""


def privileged(proc: str) -> bool:
    """Whether this process may count whatever the sysctl is (CAP_PERFMON or CAP_SYS_ADMIN)."""
    mask = int(_status(proc, "CapEff") or "0", 16)
    return bool(mask & (1 << _PERFMON | 1 << _SYS_ADMIN))


def refusal(proc: str, texts: Sequence[str], most: int) -> tuple[str, str] | None:
    """(reason, advice) where it is permission that is missing; None where it is not.

    texts: what perf printed. most: the highest perf_event_paranoid that allows this kind of counting.
    """
    text = "\n".join(texts)
    if wrong := _WRONG_KERNEL.search(text):
        return f"there is no perf for this kernel ({wrong.group(1)})", "install your kernel's perf package"
    level = paranoid(proc)
    if level is not None and level > most and not privileged(proc):
        return (
            f"kernel.perf_event_paranoid is {level}: {_WHO[most]}",
            f"sysctl kernel.perf_event_paranoid={most}, {CAPABLE}",
        )
    if "Function not implemented" in text:
        return "the kernel or its sandbox has no perf_event_open", "run the agent on the host itself"
    if not _REFUSED.search(text):
        return None
    if _status(proc, "Seccomp") == "2":
        return (
            "a seccomp filter refuses perf_event_open (usual in containers)",
            "give it CAP_PERFMON and a seccomp profile that allows the call, or run the agent on the host",
        )
    return "the kernel refuses perf_event_open", "give the agent CAP_PERFMON"


_WHO = {2: "only privileged users may count", 0: "only privileged users may count for the whole node"}
