"""Reads orders as lines of JSON from standard input, and answers each with a line.

{"prepare": WORK} is answered by {"ready": whether something was done that counts}, {"do": WORK} by {"did":
{QUANTITY: [done, whole, unsure]}, "begin_ns": ..., "end_ns": ...}, {"forms": true} by {"forms": [[precision,
width, fused], ...]}, and each by {"cannot": why} where that is not possible here. It ends with its input.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofline_agent.calibrate.compiled.compiler import CompiledLibrary
from roofline_agent.validate.child.done import Cannot, Quantities
from roofline_agent.validate.child.gpu import GpuWork
from roofline_agent.validate.child.kernels import KernelWork
from roofline_agent.validate.child.steps import StepWork
from roofline_agent.validate.child.storage import StorageWork
from roofline_agent.validate.child.traffic import TcpWork, UnreadWork
from roofline_agent.validate.child.usage import MemoryWork, sleep, spin_once


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m roofline_agent.validate.child", description=__doc__)
    parser.add_argument("folder", type=Path, help="for files")
    parser.add_argument("port", type=int, help="of the TCP peer on loopback")
    parser.add_argument("--library", type=Path, help="compiled kernels; else machine code made here")
    parser.add_argument("--compiler", default="", help="by which the library was compiled")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # a collection in the middle of a work would be work of an unknown amount
    library = CompiledLibrary(arguments.library, arguments.compiler) if arguments.library else None
    hand = Hand(arguments.folder, arguments.port, library)
    for line in sys.stdin:
        try:
            answer = hand.follow(json.loads(line))
        except (Cannot, OSError) as error:
            answer = {"cannot": str(error)}
        print(json.dumps(answer, allow_nan=False), flush=True)
    return 0


class Hand:
    """All works by name."""

    def __init__(self, folder: Path, port: int, library: CompiledLibrary | None) -> None:
        self._kernels, self._gpu = KernelWork(library), GpuWork()
        memory, storage, unread = MemoryWork(), StorageWork(folder), UnreadWork(port)
        tcp, steps = TcpWork(port), StepWork()
        self._do: dict[str, Callable[[], Quantities]] = {
            "spin": spin_once,
            "sleep": sleep,
            "storage": storage.do,
            "tcp": tcp.do,
            "unread": unread.do,
            "memory": memory.do,
            "steps": steps.do,
            "busy": self._kernels.busy,
        }
        # Whether something was done that counts, so that earlier readings are of no use.
        self._prepare: dict[str, Callable[[], bool]] = {
            "storage": storage.prepare,
            "tcp": tcp.prepare,
            "unread": unread.prepare,
            "memory": memory.prepare,
            "steps": steps.prepare,
        }

    def _kind(self, name: str) -> KernelWork | GpuWork | None:
        """Who has several works, of which this is one."""
        return next((one for one in (self._kernels, self._gpu) if one.knows(name)), None)

    def follow(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order. Raises Cannot, OSError."""
        if "forms" in order:
            return {"forms": self._kernels.forms()}
        if "prepare" in order:
            name = str(order["prepare"])
            kind = self._kind(name)
            return {"ready": kind.prepare(name) if kind else self._prepare.get(name, lambda: False)()}
        name = str(order["do"])
        kind = self._kind(name)
        begin_ns = time.monotonic_ns()
        did = kind.do(name) if kind else self._do[name]()
        return {"did": did, "begin_ns": begin_ns, "end_ns": time.monotonic_ns()}


if __name__ == "__main__":
    sys.exit(main())
