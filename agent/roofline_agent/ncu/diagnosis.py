"""Explains why ncu profiles nothing, and what exactly to do about it."""

from __future__ import annotations

from pathlib import Path

CAP_SYS_ADMIN = 21
DENIED = "ERR_NVGPUCTRPERM"
BUSY = "driver resource was unavailable"
ENDED = "Trying to shutdown target application"
INSTALL = (
    "install it (package nsight-compute, or the CUDA toolkit), or say where it is: ROOFLINE_NCU=/path/to/ncu"
)
MISSING = f"Nsight Compute (ncu) is not on this node: {INSTALL}"
NO_GPU = "no GPU here runs a kernel (is the driver loaded, CUDA_VISIBLE_DEVICES right?)"


def admin_only(proc: str = "/proc") -> bool | None:
    """Whether the driver reserves the counters for administrators; None where that is unknown."""
    try:
        text = Path(proc, "driver/nvidia/params").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "RmProfilingAdminOnly":
            return value.strip() == "1"
    return None


def may_administer(proc: str = "/proc") -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    try:
        text = Path(proc, "self/status").read_text()
    except OSError:
        return False
    words = next((line.split() for line in text.splitlines() if line.startswith("CapEff:")), ["", "0"])
    return bool(int(words[1], 16) >> CAP_SYS_ADMIN & 1)


def in_container(proc: str = "/proc", root: str = "/") -> bool:
    """Whether this looks like a container: its marker files, or its name as first process's variable."""
    if any(Path(root, name).exists() for name in (".dockerenv", "run/.containerenv", ".singularity.d")):
        return True
    try:
        return b"container=" in Path(proc, "1/environ").read_bytes()
    except OSError:
        return False


def denied(proc: str = "/proc", root: str = "/") -> str:
    """What to do when the driver refuses its counters: which of the cases it is."""
    why = "the driver refuses its performance counters (ERR_NVGPUCTRPERM)"
    host = (
        "put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into "
        "/etc/modprobe.d/nvidia-profiling.conf and load the nvidia module again (or reboot)"
    )
    if may_administer(proc):
        return f"{why} though this process has CAP_SYS_ADMIN: is it confined otherwise? On the host, {host}"
    if in_container(proc, root):
        more = "Kubernetes: securityContext.capabilities.add: [SYS_ADMIN]"
        return (
            f"{why}. In this container: start it with --cap-add=SYS_ADMIN ({more}); or, on the host, {host}"
        )
    if admin_only(proc) is False:
        return f"{why} though RmProfilingAdminOnly is 0: run the command as root to see whether that helps"
    return (
        f"{why}: RmProfilingAdminOnly is 1 in /proc/driver/nvidia/params. Run as root (CAP_SYS_ADMIN); or, "
        f"as root, {host}"
    )


def occupied() -> str:
    """What to do when another profiler has the counters."""
    return (
        "another tool has the GPU's counters, most likely DCGM; on Ampere and older GPUs only one can. "
        "Pause it meanwhile: `dcgmi profile --pause`, afterwards `dcgmi profile --resume`"
    )


def reason(log: str, proc: str = "/proc", root: str = "/") -> str:
    """The error in ncu's output, and what to do about it where that is known; "" without an error."""
    if DENIED in log:
        return denied(proc, root)
    if BUSY in log:
        return occupied()
    errors = [line for line in log.splitlines() if line.startswith("==ERROR==")]
    # An application that failed is no error of ncu's.
    own = [line[9:].strip() for line in errors if "application returned an error code" not in line]
    return f"ncu says: {own[0]}" if own else ""
