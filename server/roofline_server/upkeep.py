"""Retention next to the running server: by the server's own options, and as `roofline-server prune` asks."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .query.answers import Answers
from .store.retention import requests
from .store.retention.apply import MakeReport
from .store.retention.plan import DAY_NS, Policy
from .store.store import Store

log = logging.getLogger(__name__)

GB = 1_000_000_000
SHARE_OF_DISK = 0.8  # of the file system, where nobody gave a limit
RETAIN_S = 60.0
JUMP_NS, WAIT_NS = DAY_NS, DAY_NS // 24
LOOK_S = 1.0


class Keep(NamedTuple):
    """What the server's options say. None: no such option; inf, and gb 0: no limit."""

    days: float | None = None
    gb: float | None = None
    tagged: tuple[str, ...] = ()


def policy_of(keep: Keep, disk_bytes: int) -> Policy:
    """disk_bytes: size of the file system of the data."""
    most = SHARE_OF_DISK * disk_bytes if keep.gb is None else keep.gb * GB
    older = math.inf if keep.days is None else keep.days * DAY_NS
    return Policy(_limit(older), _limit(most) or None, tagged=keep.tagged)


def _limit(amount: float) -> int | None:
    return None if math.isinf(amount) else int(amount)


def disk_bytes(folder: Path) -> int:
    """Size of its file system."""
    found = os.statvfs(folder)
    return found.f_frsize * found.f_blocks


class AgeLimit:
    """Whether the server's clock is trusted to say how old data are: one that is ahead, as a head node's may
    be until NTP sets it, would have all jobs removed at the start, and that is for good."""

    def __init__(self, newest_ns: int | None, now_ns: int, wait_until_ns: int = 0) -> None:
        """newest_ns: server time of the newest data that are stored when the server starts; None: there are
        none. wait_until_ns: see there, as a server before this one had it."""
        jump_ns = 0 if newest_ns is None else now_ns - newest_ns
        waits = now_ns < wait_until_ns <= now_ns + WAIT_NS  # a later one is of a clock that was ahead
        self.wait_until_ns = wait_until_ns if waits else now_ns + WAIT_NS if jump_ns > JUMP_NS else 0
        self._logged = ""

    def applies(self, now_ns: int, unix_ns: int) -> bool:
        """Whether data may be removed because of their age. unix_ns: what the machine's clock says now."""
        why = ""
        if now_ns < self.wait_until_ns:
            why = (
                "the newest data are over a day old, or the clock is wrong: in its first hour the server "
                "removes nothing because of its age"
            )
        elif now_ns - unix_ns > JUMP_NS:
            why = (
                "the clock was set back by over a day since the server started: until it is started again it "
                "removes nothing because of its age"
            )
        if why and why != self._logged:
            log.warning("%s", why)
        self._logged = why
        return not why


def _age_limit(store: Store) -> AgeLimit:
    """A server that is started again goes on waiting: what comes meanwhile has times of the same clock."""
    retention = store.retention
    limit = AgeLimit(retention.newest_ns(), store.now_ns(), retention.noted_wait())
    retention.note_wait(limit.wait_until_ns)
    return limit


async def retain_for_ever(store: Store, data: Path, keep: Keep) -> None:
    """Remove what is to be removed, once a minute, and when somebody asks."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="retain")
    policy, failing, waited = policy_of(keep, disk_bytes(data)), False, RETAIN_S  # at once for the first time
    answers, age = Answers(store), await loop.run_in_executor(thread, _age_limit, store)

    def apply(make_report: MakeReport) -> None:
        if policy.older_ns is None or age.applies(store.now_ns(), time.time_ns()):
            store.retention.apply(policy, make_report)
        else:
            store.retention.apply(policy._replace(older_ns=None), make_report)

    requests.forget(data)
    while True:
        await asyncio.sleep(LOOK_S)
        waited += LOOK_S
        try:
            if requests.waits(data):
                await loop.run_in_executor(
                    thread, requests.answer, data, store.retention, answers.report_to_keep
                )
            if waited >= RETAIN_S:
                waited = 0.0
                await loop.run_in_executor(thread, apply, answers.report_to_keep)
            failing = False
        except Exception as error:
            if not failing:
                log.error(
                    "cannot remove old data (%s); they stay, trying again",
                    store.cause_of(error),
                    exc_info=store.own_fault(error),
                )
            failing = True
