"""Tells two agents that work under one identity at the same time, as copies of a state directory do.

Their batches do not mix, because each process numbers its own (store/intake/sequences.py); but people should
know. Two streams alone mean nothing: that of an agent which was killed or cut off may stay open for a while.
So the older one is sent a ping when the newer one opens; if it is answered, that agent is alive.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from roofline.v1 import ingest_pb2 as pb

from ..records import RECORDING
from .commands import Link

log = logging.getLogger(__name__)

FACT = "identity"
ADVICE = (
    "nothing is lost, but the machines and their clocks may be taken for one; stop one, remove spool.db "
    "from its state directory (it was copied from the other), and start it again"
)


class Stream(Protocol):
    """What is asked of a stream."""

    agent: str
    instance: str
    link: Link

    def send(self, message: pb.ServerMessage) -> None: ...

    def ping_once(self) -> int: ...


class DuplicateAgents:
    """All streams that are open, and which agents were asked whether they are alive."""

    def __init__(self) -> None:
        self._open: dict[str, list[Any]] = {}  # agent -> its streams
        self._asked: dict[tuple[int, int], Stream] = {}  # (older stream, ping) -> the newer

    def opened(self, stream: Stream) -> None:
        """A stream has opened: are others with its identity alive?"""
        streams = self._open.setdefault(stream.agent, [])
        is_file = stream.link.hello.boot == RECORDING  # which may well be sent twice at once
        for other in streams:
            if other.instance != stream.instance and not is_file:
                self._asked[id(other), other.ping_once()] = stream
        streams.append(stream)

    def closed(self, stream: Stream) -> None:
        """A stream is over."""
        streams = self._open[stream.agent]
        streams.remove(stream)
        if not streams:
            del self._open[stream.agent]
        for key in [key for key, newer in self._asked.items() if newer is stream or key[0] == id(stream)]:
            del self._asked[key]

    def answered(self, stream: Stream, ping: int) -> None:
        """An agent has answered a ping."""
        newer = self._asked.pop((id(stream), ping), None)
        if newer is None:
            return
        hosts = stream.link.host, newer.link.host
        where = f"both on {hosts[0]}" if hosts[0] == hosts[1] else f"on {hosts[0]} and {hosts[1]}"
        text = f"two agents have the identity {stream.agent[:8]}, {where}: {ADVICE}"
        log.warning("%s", text)
        for one in (stream, newer):
            one.send(pb.ServerMessage(notice=pb.Notice(name=FACT, text=text)))
