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

# glibc's own arenas of threads would keep 27 MB of this. After the large ones it gives less back by itself.
OF_THREADS = """
import threading
import numpy as np, psutil
from roofline_server.allocator import give_back, share
share()
def rss(): return psutil.Process().memory_info().rss
empty = rss()
def work():
    kept = [np.ones(1_500) for _ in range(3_000)]
    large = [np.ones(4 << 20) for _ in range(2)]
    del large
    more = [np.ones(100_000) for _ in range(60)]
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
give_back()
assert rss() - empty < 12e6, rss() - empty
"""


def test_memory_that_is_no_longer_used_goes_back_to_the_system() -> None:
    subprocess.run([sys.executable, "-c", SPREAD], check=True, timeout=60)


def test_memory_that_threads_used_goes_back_too() -> None:
    subprocess.run([sys.executable, "-c", OF_THREADS], check=True, timeout=60)
