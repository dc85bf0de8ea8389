"""What a process of the server sets before it loads anything large, so that it always takes less memory."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder

ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h, see mallopt(3)


def begin() -> None:
    """To be called before numpy is imported, whose threads begin then, and Arrow."""
    _have_one_arena()
    # Arrow takes memory where numpy does: what one has freed the other uses, and all of it goes back. Its own
    # allocator kept 100 MB after a report. Arrow's `set_memory_pool` is for calls from Python alone: what
    # reads Parquet took 16 MB elsewhere.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.meta_path.insert(0, _WithoutPandas())


def _have_one_arena() -> None:
    """All threads allocate at one place: what one has freed the others use, and all of it goes back.

    `malloc_trim` never shrinks the end of the arenas that glibc gives to threads: after some minutes under
    load they had 39 MB, with 27 MB in use in the whole process.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(ARENA_MAX, 1)


class _WithoutPandas(MetaPathFinder):
    """Where pandas is installed, as for clients, Arrow imports it with the first array that it makes of one
    of numpy's, to see whether that is one of pandas: 40 MB and a third of a second of CPU time, in the middle
    of a sealing or a question. The server has no use for it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is kept out of the server", name=fullname)
