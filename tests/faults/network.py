"""Rounds beyond the server's disk: bad networks, jumps of its clock, stopped servers, the agent's disk."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from .agents import Node
from .proxy import Mode, Proxy
from .rounds import Outcome, Round, made_senders, run_round
from .shim import ALWAYS, EIO, ENOSPC, KILL_AFTER, KILL_BEFORE, Fault, Rule
from .site import Site, StillNot, until

SPELL_S = 2.5
RESETS, RESTARTS = 6, 3
JUMPS = {"an hour ahead": 3600.0, "an hour back": -3600.0, "ten minutes to and fro": 600.0}
SPOOL_FAULTS = (KILL_BEFORE, KILL_AFTER, EIO, ENOSPC)

Break = Callable[[Round, Proxy], Awaitable[int]]
RunRound = Callable[[int, Path], Awaitable[Outcome]]


def network_rounds(library: Path | None) -> dict[str, RunRound]:
    """All of them by name. library: of shim.py; None: those that need it are left out."""
    found: dict[str, RunRound] = {}
    for name, breaking in NETWORK.items():
        found[f"network: {name}"] = _bound(name, breaking)
    if library is not None:
        for name, seconds in JUMPS.items():
            found[f"server's clock: {name}"] = _clock_bound(name, seconds, library)
        for fault in SPOOL_FAULTS:
            found[f"agent's spool, write: {fault.name}"] = _spool_bound(fault, library)
    return found


def _bound(name: str, breaking: Break) -> RunRound:
    return lambda seed, folder: _through_proxy(("network", "network", name), breaking, seed, folder)


def _clock_bound(name: str, seconds: float, library: Path) -> RunRound:
    async def breaking(taking_part: Round, proxy: Proxy) -> int:
        return await _jump(taking_part, seconds)

    names = ("clock", "server's clock", name)
    return lambda seed, folder: _through_proxy(names, breaking, seed, folder, library)


def _spool_bound(fault: Fault, library: Path) -> RunRound:
    async def breaking(taking_part: Round, proxy: Proxy) -> int:
        return await _break_spool(taking_part, fault)

    names = ("agent", "agent's spool, write", fault.name)
    return lambda seed, folder: _through_proxy(names, breaking, seed, folder, library)


async def _through_proxy(
    names: tuple[str, str, str], breaking: Break, seed: int, folder: Path, library: Path | None = None
) -> Outcome:
    """A round in which senders and a real agent reach the server through a proxy."""
    site = Site(folder, library)
    proxy = Proxy(lambda: site.address)
    async with proxy.running():
        node = Node(folder, proxy.address, library)
        senders = made_senders(lambda: proxy.address)
        taking_part = Round(site, senders, random.Random(f"{seed} {names}"), node)
        return await run_round(names[0], names[1:], seed, taking_part, lambda one: breaking(one, proxy))


async def _in_mode(proxy: Proxy, mode: Mode) -> int:
    """A bad network for a while."""
    proxy.mode = mode
    await asyncio.sleep(SPELL_S)
    proxy.mode = Mode.PASS
    return 1


async def _partition(taking_part: Round, proxy: Proxy) -> int:
    return await _in_mode(proxy, Mode.PARTITION)


async def _delay(taking_part: Round, proxy: Proxy) -> int:
    return await _in_mode(proxy, Mode.DELAY)


async def _trickle(taking_part: Round, proxy: Proxy) -> int:
    return await _in_mode(proxy, Mode.TRICKLE)


async def _refuse(taking_part: Round, proxy: Proxy) -> int:
    proxy.mode = Mode.REFUSE
    proxy.reset()
    return await _in_mode(proxy, Mode.REFUSE)


async def _reset(taking_part: Round, proxy: Proxy) -> int:
    """Connections are reset again and again, at any moment."""
    count = 0
    for _ in range(RESETS):
        count += proxy.reset()
        await asyncio.sleep(taking_part.chance.uniform(0.05, 0.6))
    return count


async def _half_open(taking_part: Round, proxy: Proxy) -> int:
    return proxy.half_open()


async def _killed(taking_part: Round, proxy: Proxy) -> int:
    """The server is killed again and again, at any moment."""
    for _ in range(RESTARTS):
        await asyncio.sleep(taking_part.chance.uniform(0.05, 0.8))
        await taking_part.site.kill()
        await taking_part.site.start()
    return RESTARTS


async def _stopped(taking_part: Round, proxy: Proxy) -> int:
    """The server stands still for a while."""
    os.kill(taking_part.site.server.pid, signal.SIGSTOP)
    await asyncio.sleep(SPELL_S)
    os.kill(taking_part.site.server.pid, signal.SIGCONT)
    return 1


NETWORK: dict[str, Break] = {
    "partition": _partition,
    "delay": _delay,
    "trickle": _trickle,
    "refused connections": _refuse,
    "resets": _reset,
    "half-open connections": _half_open,
    "server killed thrice": _killed,
    "server stopped for a while": _stopped,
}


async def _jump(taking_part: Round, seconds: float) -> int:
    """UNIX time of the server jumps while it runs and stays so over a restart, then jumps back."""
    site = taking_part.site
    assert site.control is not None
    site.control.move_clock(seconds)
    await asyncio.sleep(1)
    await site.kill()
    await site.start()
    await asyncio.sleep(1)
    site.control.move_clock(0)
    return 2


async def _break_spool(taking_part: Round, fault: Fault) -> int:
    """The agent's disk fails for a while, or the agent is killed as it writes and started again."""
    node, chance = taking_part.node, taking_part.chance
    assert node is not None and node.control is not None
    control = node.control
    rule = Rule("write", "*/agent-state/spool.db*", fault, chance.randint(0, 8), 1 if fault.kills else ALWAYS)
    control.arm(rule)
    await until(control.fired, "the agent writes its spool")
    if fault.kills:
        await until(lambda: node.agent.poll() is not None, "the fault ends the agent")
        control.clear()
        # What had not reached its disk is gone, and the time until it is back: the report has a gap there.
        node.may_lack = 1 << 62
        await node.start_agent()
    else:
        await asyncio.sleep(SPELL_S)
        control.clear()
        if node.agent.poll() is not None:
            raise StillNot(f"the agent survives {fault.name}: it ended with {node.agent.returncode}")
    return control.fired()
