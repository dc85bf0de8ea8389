"""Memory that allocators keep for later, given back to the system: a sealing takes much for a short time."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def give_back() -> None:
    """Takes some milliseconds. Does nothing where the C library is not glibc."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
