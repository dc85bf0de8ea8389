"""Two network namespaces with a link between them, of which one end can be made slow (ip(8), tc-tbf(8))."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

BURST_BYTES = 64 << 10
INTERFACE = "link0"
ADDRESSES = ("10.213.0.1", "10.213.0.2")


def names() -> list[str]:
    return ["roofline-causes-0", "roofline-causes-1"]


def inside(rank: int) -> list[str]:
    """What comes before the command of a rank that is to live there."""
    return ["ip", "netns", "exec", names()[rank]]


@contextmanager
def linked(slow: int = -1, bytes_per_second: float = 0) -> Iterator[None]:
    """Namespaces for two ranks. slow: whose sends are held to so many bytes/s."""
    _remove()
    try:
        for name in names():
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        first, second = names()
        peer = ["peer", "name", INTERFACE, "netns", second]
        _ip("link", "add", INTERFACE, "netns", first, "type", "veth", *peer)
        for name, address in zip(names(), ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE)
            _ip("-n", name, "link", "set", INTERFACE, "up")
        if bytes_per_second:
            shape = [
                "rate",
                f"{round(8 * bytes_per_second)}bit",
                "burst",
                str(BURST_BYTES),
                "latency",
                "200ms",
            ]
            _run("tc", "-n", names()[slow], "qdisc", "add", "dev", INTERFACE, "root", "tbf", *shape)
        yield
    finally:
        _remove()


def _remove() -> None:
    for name in names():
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
