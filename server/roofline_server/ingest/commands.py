"""Commands to agents that are connected now, and their answers.

Everything here runs in the server's one event loop. A command's answers go to whoever gave it; when the agent
disconnects first, None comes in place of an answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from roofline.v1 import ingest_pb2 as pb

from .addresses import is_loopback

# Called with each answer; None: the agent has gone, and no more will come.
OnAnswer = Callable[[Any | None], None]


class Busy(Exception):
    """An agent works on something that wants it alone; the text says which and on what."""


@dataclass
class Received:
    """What came of an agent since it connected. node: which one it is."""

    node: int = -1
    newest_ns: int = 0  # end of its newest batch, node time; 0: none came
    batches: int = 0
    lost: int = 0  # things that it reported as dropped
    refused: int = 0  # batches
    behind: bool = False  # it still sends what it kept before

    def batch(self, message: Any) -> None:
        """A batch came."""
        self.batches += 1
        self.newest_ns = max(self.newest_ns, message.end_ns)
        self.lost += sum(event.count for event in message.events if event.kind == pb.EVENT_KIND_LOST)


class Link:
    """The commands to one connected agent."""

    def __init__(self, hello: Any, send: Callable[[Any], None], address: str = "") -> None:
        """`send` takes a ServerMessage. `hello` is replaced when the agent sends another. address: that its
        stream comes from; "": not known."""
        self.hello = hello
        self.address = address
        self.host: str = hello.machine.host
        self.busy_with = ""
        self.received = Received()
        self._send = send
        self._numbers = itertools.count(1)
        self._asked: dict[int, OnAnswer] = {}
        self._open = True

    def command(self, on_answer: OnAnswer | None = None, **kind: Any) -> int:
        """Give a command, as `command(on_answer, serve_net=pb.ServeNet(...))`; returns its number."""
        number = next(self._numbers)
        if on_answer is not None:
            self._asked[number] = on_answer
        if self._open:
            self._send(pb.ServerMessage(command=pb.Command(id=number, **kind)))
        elif on_answer is not None:
            on_answer(None)
        return number

    def forget(self, number: int) -> None:
        """Its answers are of no interest any more."""
        self._asked.pop(number, None)

    def take(self, result: Any) -> None:
        """An answer came; one that is not waited for is dropped."""
        if on_answer := self._asked.get(result.id):
            on_answer(result)

    def close(self) -> None:
        """The agent has gone."""
        self._open = False
        self._send = _nowhere  # that of the stream would hold the stream, which holds this
        asked, self._asked = list(self._asked.values()), {}
        for on_answer in asked:
            on_answer(None)


def _nowhere(message: Any) -> None:
    """Of a stream that is over."""


def _on_one_machine(one: Link, other: Link) -> bool:
    """Containers of one machine have its boot, too, but addresses of their own."""
    same = one.address == other.address or is_loopback(one.address) or is_loopback(other.address)
    return bool(one.hello.boot == other.hello.boot and same)


class Agents:
    """The agents that are connected, by host."""

    def __init__(self) -> None:
        self._links: dict[str, list[Link]] = {}  # of a host, in the order they came

    def add(self, link: Link) -> None:
        self._links.setdefault(link.host, []).append(link)

    def remove(self, link: Link) -> None:
        link.close()
        links = self._links.get(link.host, [])
        if link in links:
            links.remove(link)
        if not links:
            self._links.pop(link.host, None)

    def machines(self, host: str) -> list[Link]:
        """Of each machine of this name the agent that came last: there may be two on one, and streams that
        have not ended yet."""
        newest = {link.hello.agent: link for link in self._links.get(host, ())}
        found: list[Link] = []
        for link in newest.values():
            found = [*(other for other in found if not _on_one_machine(link, other)), link]
        return found

    def links(self) -> list[Link]:
        """All of them."""
        return [link for links in self._links.values() for link in links]

    def hosts(self) -> list[str]:
        return sorted(self._links)


@contextmanager
def alone(links: Sequence[Link], what: str) -> Iterator[None]:
    """These agents do nothing else that wants them alone meanwhile. Raises Busy where one of them does."""
    taken = list(dict.fromkeys(links))
    for link in taken:
        if link.busy_with:
            raise Busy(f"the agent on {link.host} is busy with {link.busy_with}; try again when it is done")
    for link in taken:
        link.busy_with = what
    try:
        yield
    finally:
        for link in taken:
            link.busy_with = ""
