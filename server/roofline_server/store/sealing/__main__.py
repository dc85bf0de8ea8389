"""`python -m roofline_server.store.sealing DESCRIPTOR ROOT LEVEL`: the process of process.py."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from roofline.log_lines import SERVERS, log_to_stderr

from ... import lean

lean.begin()

from ...allocator import give_back  # noqa: E402
from ...errors import SealingFailed  # noqa: E402
from .process import QUESTIONS, receive, send  # noqa: E402
from .writing import write_sealing  # noqa: E402

log = logging.getLogger(__name__)

NICENESS = 5  # acks first


class Asked:
    """A source at the other end. What was asked once in a sealing is known."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Any, Any] = {}

    def __getattr__(self, question: str) -> Any:
        if question not in QUESTIONS:
            raise AttributeError(question)

        def ask(*arguments: Any) -> Any:
            key = question, *arguments
            if question == "intervals_ns":
                return self._ask(question, (list(arguments[0]),))
            if question == "next_table":
                return self._ask(question, arguments)
            if key not in self._known:
                self._known[key] = self._ask(question, arguments)
            return self._known[key]

        return ask

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Any:
        send(self._connection, ("ask", question, arguments))
        return receive(self._connection)


def seal_for_ever(connection: Connection, root: Path) -> None:
    """Until the server is gone."""
    while receive(connection) == "seal":
        try:
            send(connection, ("done", write_sealing(root, Asked(connection))))
        except (EOFError, ConnectionError):
            raise
        except OSError as error:
            send(connection, ("failed", error))
        except Exception as error:
            log.exception("a sealing failed")
            send(connection, ("failed", SealingFailed(str(error) or type(error).__name__)))
        give_back()


def _end_with(descriptor: int) -> None:
    """Not only when something is read: what a killed server wanted sealed, the next one seals."""
    look = select.poll()
    look.register(descriptor, 0)  # the other end's end is always reported
    while not look.poll():
        pass
    os._exit(1)


def main() -> None:
    descriptor, root, level = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    log_to_stderr("roofline-server", level, SERVERS)
    # Of a terminal, or of systemd: the server ends this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # systemd's unit forbids it
        os.nice(NICENESS)
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    try:
        seal_for_ever(Connection(descriptor), root)
    except (EOFError, ConnectionError):
        sys.exit(1)


if __name__ == "__main__":
    main()
