"""Memory that allocators keep for later: one allocator for all, and what is left goes back to the system.

Sealings and questions take much for a short time."""

from __future__ import annotations

import ctypes

import pyarrow as pa

ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h, see mallopt(3)


def share() -> None:
    """Have Arrow take memory where numpy does, and all threads at one place: what one has freed the others
    use, and all of it goes back. To be called before anything is read, and before threads begin.

    Arrow's own allocator kept 100 MB after a report. Of the arenas that glibc gives to threads `malloc_trim`
    leaves the end as large as it ever was: after some minutes under load they had 39 MB, with 27 MB in use in
    the whole process.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(ARENA_MAX, 1)


def give_back() -> None:
    """Takes some milliseconds. Does nothing where the C library is not glibc."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
