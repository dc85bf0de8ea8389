"""After how many steps the page names a rank that is slowed while somebody looks, in a real Chromium."""

from __future__ import annotations

import shutil
import statistics
import time

from .agent import load
from .page import chromium
from .page_memory import opened, training
from .site import Result, node

STEPS, BEFORE_S, TURNS, PATIENCE_S = 20, 30.0, 3, 60.0
# Ranks that meet in each step, of 0.12 s; the one whose number is in the file `slow` sleeps 0.1 s more.
TRAINING = """
import os, time
import roofline_step
own, folder = os.environ["ROOFLINE_RANK"], os.environ["ROOFLINE_SOCKET"].rpartition("/")[0]
for k in range(1 << 30):
    with roofline_step.step(k, examples=32):
        if os.path.exists(folder + "/slow") and open(folder + "/slow").read() == own:
            time.sleep(0.1)
        time.sleep(0.1)
        with open(f"{folder}/at.{own}", "w") as file:
            file.write(str(k))
        with roofline_step.phase("communicate"):
            while True:
                there = [f"{folder}/at.{rank}" for rank in range(4)]
                if all(os.path.exists(one) and int(open(one).read() or -1) >= k for one in there):
                    break
                time.sleep(0.002)
            time.sleep(0.02)
"""


def slowed_rank() -> Result:
    """Three times: a rank is slowed, and after how many of its steps its name is in the line NOW."""
    what = "a slowed rank is named on the page"
    if shutil.which("chromium") is None:
        return Result(what, f"{STEPS} steps", "not measured", False, "there is no Chromium here")
    with (
        node() as here,
        here.server(),
        here.agent(1.0),
        training(here, TRAINING),
        chromium(here) as (browser, home),
    ):

        def step() -> int:
            return int((here.folder / "at.0").read_text() or 0)

        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        opened(tab, f"{home}/job?job=7")
        time.sleep(BEFORE_S)
        after = []
        for rank in range(1, 1 + TURNS):
            begin, until = step(), time.monotonic() + PATIENCE_S
            (here.folder / "slow").write_text(str(rank))
            while f"worker:{rank} " not in tab.inner_text("#now") and time.monotonic() < until:
                time.sleep(0.02)
            after.append(step() - begin)
            (here.folder / "slow").unlink()
            time.sleep(10.0)  # it is as the others again
    most = max(after)
    return Result(
        what,
        f"{STEPS} steps",
        f"{most} steps at most",
        most <= STEPS,
        f"median {statistics.median(after):.0f} of {TURNS}; 4 ranks with steps of 0.12 s; {load()}",
    )
