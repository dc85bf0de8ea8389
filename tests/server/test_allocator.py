from __future__ import annotations

import subprocess
import sys

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
