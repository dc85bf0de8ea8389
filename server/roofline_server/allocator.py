"""Memory that the allocator keeps for later is given back to the system.

Sealings and questions take much for a short time, and streams that end leave their last batches."""

from __future__ import annotations

import asyncio
import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt (malloc.h)
LARGE_BYTES, FREE_BYTES = 256 << 10, 16 << 20
COLLECT_S = 30.0


def have_large_arrays_apart() -> None:
    """Have glibc take a stretch of its own for each large array, which goes back when the array does. To be
    called before anything is read.

    By itself it does so for arrays beyond the largest that was ever freed, up to 32 MB: the others lie among
    small things that stay, in heaps that grow with the largest job anybody has asked about."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, FREE_BYTES)  # to set the other one sets it to 128 KB


def give_back() -> None:
    """Takes some milliseconds. Does nothing where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def collect_for_ever() -> None:
    """Search for cycles now and then, in some milliseconds: Python by itself does it seldom here.

    gRPC's side of a stream that is cut is a cycle, and holds the messages that were on their way: 0.2 to 0.4
    MB of a busy agent. What is there when this begins is never searched."""
    gc.collect()
    gc.freeze()
    while True:
        await asyncio.sleep(COLLECT_S)
        gc.collect()
