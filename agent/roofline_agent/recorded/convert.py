"""Files that only their own tool can read, as the text that it makes of them: Nsight Compute's reports.

The tool runs as a child whose output is read as it comes; nothing is written to disk. Closing the stream ends
the child.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from .errors import NotReadable, NotText
from .tables.nsys_database import MAGIC as SQLITE_MAGIC
from .tables.nsys_database import TraceOfDatabase
from .traces.xplane_file import TextOfXplane, is_xplane

MAGIC = b"NVR\0"  # how every .ncu-rep begins (extras/FileFormat of Nsight Compute's packages)
HEAD_BYTES = 1 << 16
STOP_S = 5.0  # for a killed child to be gone


def opened(stream: IO[bytes], path: str, environ: Mapping[str, str] = os.environ) -> IO[bytes]:
    """The stream itself, or the text of the report in it.

    `ncu` is $ROOFLINE_NCU, else the one on $PATH. Raises NotText where there is none, NotReadable where it
    fails.
    """
    if not stream.seekable():
        return stream
    try:
        beginning = stream.read(len(MAGIC))
        stream.seek(0)
    except OSError:
        return stream  # reading on will fail likewise
    if beginning != MAGIC:
        return _converted_here(stream, path)
    stream.close()
    argument = f"./{path}" if path.startswith("-") else path
    arguments = ["--import", argument, "--csv", "--page", "raw"]
    tool = environ.get("ROOFLINE_NCU") or shutil.which("ncu", path=environ.get("PATH", os.defpath))
    if not tool:
        raise NotText(
            f"{path} is a report of Nsight Compute, and `ncu`, which reads it, is not here. Where it is, run "
            f"`ncu {shlex.join(arguments)} > report.csv` and import that, or set ROOFLINE_NCU"
        )
    try:
        text = io.BufferedReader(ChildOutput([tool, *arguments], environ))
        text.peek(1)  # a tool that fails at once is an error, not an empty file
    except OSError as error:
        raise NotReadable(f"{path} is a report of Nsight Compute; {error.strerror}") from None
    return text


def _converted_here(stream: IO[bytes], path: str) -> IO[bytes]:
    """The text of a database of nsys or of an XPlane file; any other stream as it is."""
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    makes: type[TraceOfDatabase | TextOfXplane]
    if head.startswith(SQLITE_MAGIC):
        makes = TraceOfDatabase
    elif is_xplane(head):
        makes = TextOfXplane
    else:
        return stream
    stream.close()
    try:
        return io.BufferedReader(makes(path))
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror or error}") from None


class ChildOutput(io.RawIOBase):
    """What a command prints. Where it fails, the last line of its errors is added in the form of ncu's own,
    or raised as an OSError if it printed nothing else."""

    def __init__(self, command: list[str], environ: Mapping[str, str]) -> None:
        """Raises OSError when it cannot be started."""
        self._name = command[0]
        self._has_output = self._has_ended = False
        self._child: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe that nobody empties would block it
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**environ, "LC_ALL": "C"},  # numbers without the user's decimal commas
            )
        except OSError as error:
            raise OSError(error.errno, f"{self._name} cannot be run ({error.strerror})") from None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._child is None or self._child.stdout is None or self._has_ended:
            return 0
        data = os.read(self._child.stdout.fileno(), len(buffer))
        if data or self._child.wait() == 0:
            self._has_output = True
        else:
            self._errors.seek(max(0, self._errors.seek(0, io.SEEK_END) - 4096))
            lines = self._errors.read().decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            failure = f"{self._name} failed with {self._child.returncode}"
            if last:
                failure += f": {last}"
            if not self._has_output:
                raise OSError(errno.EIO, failure)
            self._has_ended = True
            data = f"\n==ERROR== {failure}\n".encode()[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._errors.close()
            if self._child is not None and self._child.stdout is not None:
                if self._child.poll() is None:
                    self._child.kill()
                self._child.wait(STOP_S)
                self._child.stdout.close()
        super().close()
