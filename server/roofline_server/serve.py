"""Runs the server: both services on one address, the committer and the sealer next to them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from roofline.joining import join_port
from roofline.notify import ServiceManager
from roofline.signals import ending_signals

from . import __version__, access
from .access.audit import Audit
from .access.guard import Guard
from .access.tokens import Tokens
from .allocator import collect_for_ever, have_large_arrays_apart
from .background import SEAL_S, checkpoint_for_ever, forget_for_ever, seal_for_ever, started, stopped
from .counts import SealingCounts
from .data_directory import lock_directory
from .grpc_server import bind, grpc_server
from .health.health import Health
from .health.monitor import monitored, status_line
from .health.routes import ReaderCheck
from .ingest.batch_control import BatchControl
from .ingest.commands import Agents
from .ingest.committer import Committer
from .ingest.sampling_control import SamplingControl
from .ingest.service import decode_entry
from .listening import (
    ALL_ADDRESSES,
    ANY_HOST,
    DEFAULT_LISTEN,
    check_address,
    http_place,
    is_one_address,
    is_private,
    join_address,
    page_place,
)
from .page import command, keep_page
from .store.sealing.process import SealingProcess
from .store.store import Store
from .upkeep import Keep, retain_for_ever

if TYPE_CHECKING:
    from .access.certificates import Certificates

log = logging.getLogger(__name__)

GRACE_S = 2.0
SWITCH_S = 0.001  # for which a sealing keeps the event loop waiting, each time it wants Python's lock


class Options(NamedTuple):
    listen: str = ""  # "": all addresses where TLS and tokens are on, else loopback
    data: Path = Path("roofline-data")
    catalog: str = ""
    insecure: bool = False
    seal_s: float = SEAL_S
    http: str = ""  # HOST:PORT, or "off"; "": loopback, if its port is free
    page: str = ""  # HOST:PORT of the live page, or "off"; "": loopback, if its port is free
    keep: Keep = Keep()


class Access(NamedTuple):
    """What decides who may do what. certificates: of a server to which tokens are good for joining alone."""

    tokens: Tokens
    audit: Audit
    certificates: Certificates | None


async def serve(options: Options) -> None:
    """Serve until a signal ends it, then drain. Raises Unavailable or ConfigError when it cannot start."""
    folder = options.data / access.FOLDER
    guarded = access.is_set_up(options.data) and not options.insecure
    listen = options.listen or (ALL_ADDRESSES if guarded else DEFAULT_LISTEN)
    check_address(listen, guarded or options.insecure)
    if guarded:
        Tokens(folder).all()  # else one that cannot be read, as of a later release, is noticed by who joins
    mutual = guarded and access.is_mutual(folder)
    joining = join_address(listen) if mutual else ""
    http = http_place(options.http, guarded or options.insecure, joining)
    page = page_place(options.page, guarded, (listen, joining, http.listen if http else ""))
    _tune_process()
    lock = lock_directory(options.data)
    process = SealingProcess(options.data, (lock,))
    store = await asyncio.to_thread(Store, options.data, decode_entry, options.catalog, process)
    try:
        committer, sealings, agents = Committer(store), SealingCounts(), Agents()
        control = _access(folder, mutual) if guarded else None
        guard = Guard(*control) if control else None
        health = Health(store, committer, sealings, options.data, control.audit if control else None)
        server = grpc_server(store, committer, guard, health, agents)
        port = bind(server, listen, _credentials(folder, mutual) if guarded else None)
        host = listen.rpartition(":")[0]
        if mutual:
            bind(server, join_address(f"{host}:{port}"), _credentials(folder))
        health.address = f"{host}:{port}"
        manager, stop = ServiceManager(), _stop_by_signal()
        check = ReaderCheck(*control) if control else None
        async with monitored(health, options.data, http, check, manager):
            await server.start()
            how = " with TLS and tokens" if guarded else ""
            if mutual:
                how = f" with TLS and certificates, for joining port {join_port(port)}"
            log.info("roofline-server %s at %s%s, data in %s", __version__, health.address, how, options.data)
            if guarded and is_one_address(listen):
                log.info(
                    "nothing is at loopback: this machine's own agent and client join at %s, like the others "
                    "(roofline-server token new)",
                    health.address,
                )
            others = _background(options, store, committer, agents, health, guard)
            if page:
                others.append(keep_page(_page_command(page, listen, port, folder)))
            await _until_stopped(
                stop,
                process=process,
                server=server,
                committer=committer,
                sealing=seal_for_ever(store, options.seal_s, sealings),
                others=others,
                health=health,
                manager=manager,
            )
    finally:
        await asyncio.to_thread(store.close)
        os.close(lock)


def _tune_process() -> None:
    """What holds for the whole process: before it makes any file."""
    os.umask(0o077)
    _allow_all_descriptors()
    # Batches are thousands of small arrays that live until they are sealed and make no cycles; see
    # `collect_for_ever` for what does.
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(SWITCH_S)
    have_large_arrays_apart()


def _background(
    options: Options,
    store: Store,
    committer: Committer,
    agents: Agents,
    health: Health,
    guard: Guard | None,
) -> list[Coroutine[Any, Any, None]]:
    """What goes on for as long as the server runs, in addition to commits and sealings."""
    return [
        *([guard.watch()] if guard is not None else []),
        checkpoint_for_ever(store),
        forget_for_ever(store),
        collect_for_ever(),
        retain_for_ever(store, options.data, options.keep),
        health.jobs.run(),
        SamplingControl(agents, committer.load).run(),
        BatchControl(committer).run(),
    ]


def _stop_by_signal() -> asyncio.Event:
    """Set when the server is told to stop: from before it says where it listens, as that may be at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(
    stop: asyncio.Event,
    *,
    process: SealingProcess,
    server: grpc.aio.Server,
    committer: Committer,
    sealing: Coroutine[Any, Any, None],
    others: Sequence[Coroutine[Any, Any, None]],
    health: Health,
    manager: ServiceManager,
) -> None:
    """sealing, others: what goes on for as long as the server runs."""
    committing, seals = started(committer.run()), started(sealing)
    health.watch((committing, seals))
    tasks = [committing, seals, *map(started, others)]
    health.serving = True
    manager.status(status_line(health))  # before systemd says that it is started
    manager.ready()
    await stop.wait()
    health.stopping = True
    manager.stopping()
    log.info("stopping: taking what is on its way")
    seals.cancel()  # else it would report that the sealing failed
    await asyncio.to_thread(process.stop)  # the next start seals what it would have
    await server.stop(GRACE_S)
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        await asyncio.wait_for(committer.drain(), GRACE_S)
    await stopped(tasks)


def _page_command(page: str, listen: str, port: int, folder: Path) -> list[str]:
    """It asks over loopback, where the server listens there; others reach it over TLS alone."""
    host = listen.rpartition(":")[0]
    host = "127.0.0.1" if host in ANY_HOST else host
    identity = () if is_private(page) else (folder / access.CERTIFICATE, folder / access.KEY)
    return command(page, f"{host}:{port}", identity)


def _allow_all_descriptors() -> None:
    """One for each agent: the usual soft limit, 1024, is for programs with select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _access(folder: Path, mutual: bool) -> Access:
    tokens, certificates = Tokens(folder), None
    if mutual:
        from .access.certificates import Certificates  # cryptography, which not every server needs

        certificates = Certificates(folder, tokens)
    return Access(tokens, Audit(folder), certificates)


def _credentials(folder: Path, mutual: bool = False) -> Any:
    from .access.credentials import credentials  # cryptography, which a server without TLS never needs

    return credentials(folder, mutual)
