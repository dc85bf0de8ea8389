from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
from weakref import ref

import pytest
from roofline_server import allocator

# In a process of its own: what others have allocated would be in the way.
SPREAD = """
import numpy as np, psutil
from roofline_server.allocator import give_back
def rss(): return psutil.Process().memory_info().rss
empty = rss()
arrays = [np.ones(10_000) for _ in range(2_000)]  # 160 MB in pieces that the C library keeps when they go
kept = arrays[-1]
full = rss()
del arrays
give_back()
assert full - empty > 150e6, full - empty
assert rss() - empty < 30e6, rss() - empty
"""


def test_memory_that_is_no_longer_used_goes_back_to_the_system() -> None:
    subprocess.run([sys.executable, "-c", SPREAD], check=True, timeout=60)


def test_what_lies_in_a_cycle_goes_though_python_searches_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    class Call:
        def __init__(self) -> None:
            self.itself = self

    async def work() -> None:
        collecting = asyncio.create_task(allocator.collect_for_ever())
        await asyncio.sleep(0)
        cut = ref(Call())
        while cut() is not None:
            await asyncio.sleep(0.01)
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting

    monkeypatch.setattr(allocator, "COLLECT_S", 0.01)
    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(work(), 60))
    finally:
        gc.enable()
        gc.unfreeze()
