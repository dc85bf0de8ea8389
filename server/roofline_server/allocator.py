"""Memory that allocators keep for later: one allocator for all, and what is left goes back to the system.

Sealings and questions take much for a short time."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def share() -> None:
    """Have Arrow take memory where numpy does: what one has freed the other uses, and all of it goes back.
    Arrow's own allocator kept 100 MB after a report. To be called before anything is read."""
    pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Takes some milliseconds. Does nothing where the C library is not glibc."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
