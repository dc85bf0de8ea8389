"""A process of its own that writes the files of large sealings: Python runs one thread at a time, and agents
wait for their acks meanwhile. It knows only what it asks for, and nothing that it wrote counts before this
server has entered it in the catalog: it may be killed at any moment.
"""

from __future__ import annotations

import logging
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ...errors import SealingFailed
from .source import SealingSource
from .writing import Written, write_sealing

log = logging.getLogger(__name__)

LARGE_BYTES = 1 << 20  # of memory: a sealing of less takes too little to be worth another process
MOST_SEALINGS = 100  # of one process: allocators give little back of what lies in pieces
FEW_SEALINGS = 10  # small ones, done without it, after which it is ended
QUESTIONS = frozenset(name for name in vars(SealingSource) if not name.startswith("_"))


def send(connection: Connection, message: Any) -> None:
    """Arrays go as they are, behind the rest. Raises OSError."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(message, 5, buffer_callback=buffers.append)
    connection.send_bytes(len(buffers).to_bytes(4, "little") + data)
    for buffer in buffers:
        connection.send_bytes(buffer.raw())


def receive(connection: Connection) -> Any:
    """Raises EOFError, OSError when the other end is gone."""
    data = connection.recv_bytes()
    buffers = [connection.recv_bytes() for _ in range(int.from_bytes(data[:4], "little"))]
    return pickle.loads(memoryview(data)[4:], buffers=buffers)


class SealingProcess:
    """Started when it is needed, and again after a while."""

    def __init__(self, root: Path, inherited: Sequence[int] = ()) -> None:
        """inherited: descriptors that it holds as long as it lives; with a lock of the data directory among
        them no other server begins there before it has ended."""
        self._root, self._inherited = root, tuple(inherited)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._sealings = self._unused = 0
        self._lock, self._stopped = threading.Lock(), False

    def write(self, source: SealingSource) -> Written:
        """As `write_sealing`. Raises SealingFailed, OSError."""
        connection = self._started()
        self._sealings, self._unused = self._sealings + 1, 0
        try:
            send(connection, "seal")
            while (message := receive(connection))[0] == "ask":
                _, question, arguments = message
                assert question in QUESTIONS
                send(connection, getattr(source, question)(*arguments))
        except (EOFError, ConnectionError) as error:
            code = self.end()
            raise SealingFailed(f"the process that seals has ended with {code}") from error
        except BaseException:
            self.end()  # it waits for an answer
            raise
        if self._sealings >= MOST_SEALINGS:
            self.end()
        kind, found = message
        if kind == "failed":
            raise found
        assert isinstance(found, Written)
        return found

    def was_not_needed(self) -> None:
        """A small sealing was done without it."""
        self._unused += 1
        if self._unused >= FEW_SEALINGS:
            self.end()

    def stop(self) -> None:
        """What is being written fails, and nothing more is."""
        self._stopped = True
        self.end()

    def end(self) -> int | None:
        """Kill it; its exit code. None: there is none."""
        with self._lock:
            process, self._process = self._process, None
            ours, self._connection = self._connection, None
            self._sealings = 0
        if process is None:
            return None
        process.kill()
        code = process.wait()
        del ours  # closed when nobody reads from it any more, and not before: it would end by itself, with 1
        return code

    def _started(self) -> Connection:
        with self._lock:
            if self._stopped:
                raise SealingFailed("the server stops")
            if self._connection is not None:
                return self._connection
            ours, theirs = socket.socketpair()
            with theirs:
                number = theirs.fileno()
                level = str(logging.getLogger().getEffectiveLevel())
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __package__, str(number), str(self._root), level],
                    pass_fds=(number, *self._inherited),
                    stdin=subprocess.DEVNULL,
                )
            self._connection = Connection(ours.detach())
            return self._connection


def is_large(size: int) -> bool:
    """Whether a sealing of batches of so many bytes of memory is."""
    return size >= LARGE_BYTES


def writer_of(root: Path, process: SealingProcess | None) -> Callable[[SealingSource, int], Written]:
    """Writes the files of a sealing of batches of so many bytes; without a process all of them here."""

    def written(source: SealingSource, size: int) -> Written:
        if process is not None and is_large(size):
            return process.write(source)
        if process is not None:
            process.was_not_needed()
        return write_sealing(root, source)

    return written
