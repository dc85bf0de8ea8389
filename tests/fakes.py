"""Doubles and waits that several tests share. Real sockets and files; only the far side is made up."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from roofline_step import BEGIN, BORDER, END
from roofline_step.packets import ABSENT, MARK, SPAN_VALUES, SPANS, STEPS, Span, pack_mark, pack_spans

PATIENCE_S = 60.0
PORTS = (10_000, 32_000)
AGENT = [sys.executable, "-m", "roofline_agent"]
T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str = "the condition", seconds: float = PATIENCE_S) -> T:
    """The first true value of `condition`; fails the test when none comes in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.005)
    return value


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A port of this machine that nobody has, nor the next one, where servers let others join. It is below
    those that the system gives to outgoing connections: of these some other program may take it meanwhile."""
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(*PORTS, 2)
        with socket.socket() as one, socket.socket() as next_one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            return port


class MarkPacket(NamedTuple):
    """A mark as it went over the socket."""

    pid: int
    kind: int
    step: int
    examples: int | None
    time_ns: int
    role: str
    index: int
    phase: str
    asynchronous: bool
    dropped: int
    like: int


def decode_mark(pid: int, data: bytes) -> MarkPacket:
    _, kind, flags, role_size, phase_size, like, *rest = MARK.unpack_from(data)
    dropped, index, step, examples, time_ns = rest
    text = data[MARK.size :]
    assert len(text) == role_size + phase_size
    return MarkPacket(
        pid,
        kind,
        step,
        None if examples == ABSENT else examples,
        time_ns,
        text[:role_size].decode(),
        index,
        text[role_size:].decode(),
        bool(flags & 1),
        dropped,
        like,
    )


class SpanPacket(NamedTuple):
    """A span as it went over the socket."""

    name: str
    begin: int
    end: int
    bytes: int | None
    count: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


def decode_spans(data: bytes) -> list[SpanPacket]:
    kind, size, count = SPANS.unpack_from(data)
    assert kind == b"S"
    names = data[SPANS.size : SPANS.size + size].decode().split("\0")
    rows = list(struct.iter_unpack(f"<{SPAN_VALUES}q", data[SPANS.size + size :]))
    assert len(rows) == count
    return [SpanPacket(names[n], b, e, None if size == ABSENT else size, c) for n, b, e, size, c in rows]


def decode_steps(data: bytes) -> tuple[int, list[tuple[list[bytes], list[Span]]]]:
    """The size of a record of steps, and of each step its marks, as records, and its spans."""
    _, marks, like, spans, counted, size, count = STEPS.unpack_from(data)
    begin = STEPS.size + size
    names = data[STEPS.size : begin].decode().split("\0") if spans else []
    row = struct.Struct(f"<{2 + marks + 2 * spans + counted}q")
    end = begin + row.size * count
    found = []
    for step, examples, *numbers in row.iter_unpack(data[begin:end]):
        kinds = [BORDER] if marks == 1 else [BEGIN, END]
        said = None if examples == ABSENT else examples
        records = [
            pack_mark(kind, step, said, at, like=like) for kind, at in zip(kinds, numbers, strict=False)
        ]
        edges, counts = numbers[marks : marks + 2 * spans], numbers[marks + 2 * spans :]
        counts = [1] * (spans - counted) + counts
        pairs = zip(names, edges[0::2], edges[1::2], counts, strict=True)
        found.append((records, [(name, since, until, None, n) for name, since, until, n in pairs]))
    return end, found


def records(packet: bytes) -> Iterator[bytes]:
    """The marks and spans of one packet, those of steps of one form too; any other packet as it is."""
    steps: list[tuple[list[bytes], list[Span]]] = []
    while packet[:1] == b"T":
        size, found = decode_steps(packet)
        steps, packet = steps + found, packet[size:]
    for marks, spans in sorted(
        steps, key=lambda step: MARK.unpack(step[0][-1])[-1]
    ):  # by time, as the server does
        yield from marks
        if spans:
            yield pack_spans(spans)
    while packet:
        size = len(packet)
        if packet[:1] == b"M":
            fields = MARK.unpack_from(packet)
            size = MARK.size + fields[3] + fields[4]
        elif packet[:1] == b"S":
            _, names, count = SPANS.unpack_from(packet)
            size = SPANS.size + names + 8 * SPAN_VALUES * count
        yield packet[:size]
        packet = packet[size:]


class FakeAgent:
    """The agent's end of the mark socket: takes records and remembers who sent them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.peers: dict[socket.socket, int] = {}
        self._waiting: list[tuple[int, bytes]] = []  # records of packets that were read but not asked for

    def receive(self, count: int, seconds: float = PATIENCE_S) -> list[tuple[int, bytes]]:
        """The next `count` records as (pid of the sender, data)."""
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + seconds
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} packets came: {found}"
            found.extend(self.poll(0.05, count - len(found)))
        return found

    def poll(self, seconds: float = 0.0, limit: int = 1 << 30) -> list[tuple[int, bytes]]:
        """What waits on the socket now, or comes within `seconds`."""
        found, self._waiting = self._waiting, []
        while len(found) < limit:
            ready, _, _ = select.select([self.listener, *self.peers], [], [], seconds if not found else 0)
            if not ready:
                break
            for one in ready:
                if one is self.listener:
                    self._accept()
                else:
                    found.extend(self._read(one))
        self._waiting = found[limit:]
        return found[:limit]

    def marks(self, count: int, seconds: float = PATIENCE_S) -> list[MarkPacket]:
        return [decode_mark(pid, data) for pid, data in self.receive(count, seconds)]

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.peers[connection] = struct.unpack("=3i", credentials)[0]

    def _read(self, connection: socket.socket) -> Iterator[tuple[int, bytes]]:
        try:
            data = connection.recv(1 << 18)
        except ConnectionError:
            data = b""
        if data:
            for record in records(data):
                yield self.peers[connection], record
        else:
            del self.peers[connection]
            connection.close()

    def close(self) -> None:
        for one in (self.listener, *self.peers):
            one.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> FakeAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def add_process(
    proc: Path,
    pid: int,
    environ: Mapping[str, str] | bytes,
    command: Sequence[str] = ("python", "train.py"),
    parent: int = 1,
    state: str = "S",
    start_ticks: int = 100,
    name: str = "python",
    session: int = 0,
    terminal: int = 0,
) -> None:
    """One process of a made-up /proc."""
    directory = proc / str(pid)
    directory.mkdir(parents=True, exist_ok=True)
    rest = ["0", str(session), str(terminal)] + ["0"] * 14 + [str(start_ticks)] + ["0"] * 30
    (directory / "stat").write_text(f"{pid} ({name}) {state} {parent} " + " ".join(rest) + "\n")
    data = (
        environ if isinstance(environ, bytes) else b"".join(f"{k}={v}\0".encode() for k, v in environ.items())
    )
    (directory / "environ").write_bytes(data)
    (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))


def clean_environ(**more: str) -> dict[str, str]:
    """This test's environment without anything that names a rank or points at a real agent."""
    prefixes = ("ROOFLINE_", "SLURM_", "OMPI_", "PMIX_", "HOROVOD_", "TORCHELASTIC_", "ONEDNN_", "DNNL_")
    exact = ("TF_CONFIG", "RANK", "WORLD_SIZE", "PYTHONPATH", "MKL_VERBOSE", "MKLDNN_VERBOSE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in exact}
    return {**kept, **more}


@contextmanager
def inherited(number: int, action: signal.Handlers) -> Iterator[None]:
    """What is started meanwhile has this signal ignored, as under nohup, or not, though the tests run so."""
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def ended(process: Any) -> Iterator[Any]:
    """A child process that is gone when the test is."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
