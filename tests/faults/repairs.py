"""The campaign of kills of `check --repair`: load, damage, and a repair that is killed and run again."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofline_server.store.catalog.catalog import Catalog, sqlite_url

from .campaign import FAULTS, KILLED, Campaign
from .shim import Rule
from .site import StillNot, until

REPAIR = "repair"  # name of the point
CALLS = ("open", "write", "sync", "rename", "unlink")
GUESS = 40  # calls of a kind in a repair, until one has been counted
MOST_KILLS = 6  # of one repair
WORK_S = (0.2, 1.0)

Undo = Callable[[], None]


class Repairs(Campaign):
    """A server works and ends, something is damaged, and a repair is killed some times until it is let be."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._calls: dict[tuple[str, str], int] = {}  # of a whole repair: (damage, call) -> how many

    async def break_once(self) -> None:
        await self._work()
        name = self.chance.choice([*DAMAGES, EXCHANGED])
        undo = nothing_more
        if name == EXCHANGED:
            lose_catalog(self.site.data, self.chance)
            await self._work()
        else:
            undo = DAMAGES[name](self.site.data, self.chance)
        await self._repair(name)
        if undo is not nothing_more:
            undo()
            await self._checked(name, "check")

    async def _work(self) -> None:
        """Have a server run for a while, and end in one way or the other."""
        if self.site.is_dead:
            await self._start()
        before = [one.acked for one in self.senders]
        await until(
            lambda: all(one.acked > acked for one, acked in zip(self.senders, before, strict=True)),
            "batches are taken again after the repair",
        )
        await asyncio.sleep(self.chance.uniform(*WORK_S))
        if self.chance.random() < 0.8:
            await self.site.kill()
        elif code := await self.site.stop():
            raise StillNot(f"SIGTERM ended the server with {code}")

    async def _repair(self, damage: str) -> None:
        for _ in range(self.chance.randint(1, MOST_KILLS)):
            call = self.chance.choice(CALLS)
            fault = self.chance.choice(FAULTS[call])
            # Rather early: the second repair has less to do than the first, of which the calls were counted.
            skip = int(self._calls.get((damage, call), GUESS) * self.chance.random() ** 2)
            self.control.arm(Rule(call, f"{self.site.data}/*", fault, skip, 1))
            code = await self._check("--repair")
            self.control.clear()
            if not self.control.fired():
                self._calls[damage, call] = max(1, self.control.seen(), self._calls.get((damage, call), 0))
                self.missed += 1
                break
            if code != KILLED:
                raise StillNot(f"SIGKILL has ended the repair of {damage}: {code}; {self.site.last_line()}")
            self.count(f"{damage}, {call}", fault)
        await self._checked(damage, "check", "--repair")

    async def _checked(self, damage: str, *arguments: str) -> None:
        """Raises StillNot where something is left but copies that lie in quarantine/, which are counted."""
        code = await self._check(*arguments[1:])
        said = self.site.new_log()
        kinds = set(re.findall(r"^  (\w[\w -]*):", said, re.MULTILINE)) - {"repaired"}
        if code and not kinds <= {"apart", "lost"}:
            raise StillNot(f"{damage}: `{' '.join(arguments)}` ends with {code}; {said[-1000:]}")
        self.apart += bool(code) and "--repair" in arguments

    async def _check(self, *arguments: str) -> int:
        self.site.begin("check", *arguments, "--data", str(self.site.data))
        return await self.site.ended("`roofline-server check` ends")


# -- damage ---------------------------------------------------------------------------------------------


def nothing_more() -> None:
    """What is needed after most repairs."""


def lose_catalog(data: Path, chance: random.Random) -> Undo:
    for end in ("", "-wal", "-shm"):
        (data / f"catalog.db{end}").unlink(missing_ok=True)
    return nothing_more


def empty_catalog(data: Path, chance: random.Random) -> Undo:
    lose_catalog(data, chance)
    (data / "catalog.db").touch()
    return nothing_more


def cut_catalog(data: Path, chance: random.Random) -> Undo:
    os.truncate(data / "catalog.db", (data / "catalog.db").stat().st_size // 2)
    return nothing_more


def spoil_steps(data: Path, chance: random.Random) -> Undo:
    if path := known_file(data, chance, "/steps_"):
        os.truncate(path, 99)
    return nothing_more


def spoil_raw(data: Path, chance: random.Random) -> Undo:
    """One bit of a file is flipped; it is put back as from a backup."""
    path = known_file(data, chance, "/samples_", "/marks/")
    if path is None:
        return nothing_more
    sound = path.read_bytes()
    spoilt = bytearray(sound)
    spoilt[chance.randrange(len(sound) // 4, len(sound) // 2)] ^= 1 << chance.randrange(8)
    path.write_bytes(spoilt)

    def put_back() -> None:
        path.write_bytes(sound)
        for apart in (data / "quarantine" / path.relative_to(data).parent).glob(f"{path.name}*"):
            apart.unlink()

    return put_back


def misplace(data: Path, chance: random.Random) -> Undo:
    if path := known_file(data, chance, "/samples_", "/marks/"):
        apart = data / "quarantine" / path.relative_to(data)
        apart.parent.mkdir(parents=True, exist_ok=True)
        path.rename(apart)
    return nothing_more


EXCHANGED = "catalog lost, and another begun"
DAMAGES: dict[str, Callable[[Path, random.Random], Undo]] = {
    "catalog lost": lose_catalog,
    "catalog emptied": empty_catalog,
    "catalog cut in half": cut_catalog,
    "step deltas cut": spoil_steps,
    "bit of raw data flipped": spoil_raw,
    "file in quarantine": misplace,
}


def known_file(data: Path, chance: random.Random, *words: str) -> Path | None:
    """A file of the catalog whose path has one of these words; None: there is none."""
    catalog = Catalog(sqlite_url(data / "catalog.db"))
    try:
        found = sorted(path for path in catalog.paths() if any(word in path for word in words))
    finally:
        catalog.close()
    return data / chance.choice(found) if found else None
