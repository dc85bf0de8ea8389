"""The program that ncu starts: `python .../ncu FOLDER COMMAND...` runs the command and leaves its status.

Standard library only. File `pid` of the folder: the command has been started; `status`: its exit code,
negative for a signal. ncu itself neither reports whether it started a command nor forwards every signal and
status. `--trial` runs one empty kernel instead (exit code 3: there is no GPU to run it on).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading

NOT_EXECUTABLE, NOT_FOUND = 126, 127
NO_GPU = 3
HELD = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry roofline_trial()
{
    ret;
}
\0"""


def run(folder: str, command: list[str]) -> int:
    """Run the command; its exit code, negative for a signal."""
    # The command gets each signal itself; this process waits for it and must outlive them.
    for number in HELD:
        signal.signal(number, lambda *_: None)
    try:
        # Python ignores these two, and what is ignored stays so in a child.
        child = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        _note(folder, "pid", 0)
        status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    else:
        _note(folder, "pid", child)

        def end_with_starter() -> None:
            # Nobody writes to this pipe: it ends when `roofline-agent run` does, whatever it dies of.
            with contextlib.suppress(OSError):
                with open(f"{folder}/alive", "rb") as pipe:
                    pipe.read()
                os.kill(child, signal.SIGKILL)

        threading.Thread(target=end_with_starter, daemon=True).start()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _note(folder, "status", status)
    return status


def _note(folder: str, name: str, number: int) -> None:
    with contextlib.suppress(OSError):
        with open(f"{folder}/{name}.new", "w") as file:
            file.write(str(number))
        os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


def try_kernel() -> int:
    """Run one empty kernel on the first GPU; 0, or NO_GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return NO_GPU
    device, context, module, function = (ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3)))
    none = ctypes.c_void_p()
    calls = (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context),
        ("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX)),
        ("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"roofline_trial")),
        ("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, none, none, none),
        ("cuCtxSynchronize",),
    )
    return 0 if all(getattr(cuda, name)(*arguments) == 0 for name, *arguments in calls) else NO_GPU


def main() -> None:
    if sys.argv[1] == "--trial":
        sys.exit(try_kernel())
    status = run(sys.argv[1], sys.argv[2:])
    if status < 0:
        with contextlib.suppress(ValueError, OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status % 256)


if __name__ == "__main__":
    main()
