"""Runs the server: both services on one address, the committer and the sealer next to them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import ipaddress
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from roofline.joining import join_port
from roofline.notify import ServiceManager
from roofline.v1 import access_pb2_grpc, query_pb2_grpc

from . import __version__, access
from .access.audit import Audit
from .access.guard import Guard
from .access.tokens import Tokens
from .allocator import collect_for_ever, give_back, have_large_arrays_apart
from .counts import SealingCounts
from .errors import ConfigError, Unavailable
from .health.health import Health
from .health.monitor import DEFAULT_HTTP, MUTUAL_HTTP, OFF, HttpPlace, monitored, status_line
from .health.routes import Door
from .health.service import HealthService
from .ingest.commands import Agents
from .ingest.committer import Committer
from .ingest.pacing import Pacing
from .ingest.relieving import Relieving
from .ingest.service import MAX_BATCH_BYTES, MAX_STREAMS, IngestService, decode_entry
from .page import DEFAULT_PAGE, FREE_S, check_free, check_page, keep_page
from .page import command as page_command
from .query import QueryService
from .store.sealing.process import SealingProcess
from .store.store import Store
from .upkeep import Keep, retain_for_ever

if TYPE_CHECKING:
    from .access.certificates import Certificates

log = logging.getLogger(__name__)

DEFAULT_LISTEN, ALL_ADDRESSES = "127.0.0.1:7642", "0.0.0.0:7642"
STREAM_WINDOW_BYTES = 256 << 10  # on their way to the server and not read yet
ANY_HOST = ("0.0.0.0", "[::]", "*")
SEAL_S = 30.0
SEAL_ENDED_S = 10.0  # at least between two sealings because Slurm has ended jobs: arrays end many
SEAL_BYTES = 96 << 20  # of memory, as decoded
LOOK_S = 0.25
GRACE_S = 2.0
CHECKPOINT_S = 0.1
FORGET_S, MUCH_BYTES = 1.0, 16 << 20  # what is worth the time it takes to give it back
SWITCH_S = 0.001  # for which a sealing keeps the event loop waiting, each time it wants Python's lock
# What sealed for a killed server ends within that time: at a load of 13 it took over 0.5 s.
LOCK_TRIES, LOCK_AGAIN_S = 150, 0.02


MOST_CONNECTIONS, HANDSHAKE_MS, IDLE_MS = 8192, 30_000, 600_000


class Options(NamedTuple):
    listen: str = ""  # "": all addresses where TLS and tokens are on, else loopback
    data: Path = Path("roofline-data")
    catalog: str = ""
    insecure: bool = False
    seal_s: float = SEAL_S
    http: str = ""  # HOST:PORT, or "off"; "": loopback, if its port is free
    page: str = ""  # HOST:PORT of the live page, or "off"; "": loopback, if its port is free
    keep: Keep = Keep()


def default_data(environ: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    """Where the data lives by default: the XDG state directory."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "/")) / ".local/state")
    return Path(base) / "roofline" / "server"


def check_address(
    listen: str,
    safe: bool,
    option: str = "--listen",
    otherwise: str = "add --insecure if the network is trusted",
) -> None:
    """Raises ConfigError for an address that is malformed or, unless that is safe, reachable by others."""
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"{option} {listen!r} must be HOST:PORT, e.g. {DEFAULT_LISTEN}")
    if safe or _is_private(listen):
        return
    raise ConfigError(
        f"{option} {listen} can be reached by others, who could read jobs and send data: run "
        f"`roofline-server init` once, which turns TLS and tokens on, or {otherwise}"
    )


def _is_private(listen: str) -> bool:
    """Whether only this machine reaches the address."""
    host = listen.rpartition(":")[0]
    with contextlib.suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises Unavailable or ConfigError when it cannot start."""
    folder = options.data / access.FOLDER
    guarded = access.is_set_up(options.data) and not options.insecure
    listen = options.listen or (ALL_ADDRESSES if guarded else DEFAULT_LISTEN)
    check_address(listen, guarded or options.insecure)
    if guarded:
        Tokens(folder).all()  # else one that cannot be read, as of a later release, is noticed by who joins
    mutual = guarded and access.is_mutual(folder)
    joining = _joining(listen) if mutual else ""
    http = _http_place(options.http, guarded or options.insecure, joining)
    page = _page_place(options.page, guarded, (listen, joining, http.listen if http else ""))
    os.umask(0o077)
    _allow_all_descriptors()
    lock = lock_directory(options.data)
    # Batches are thousands of small arrays that live until they are sealed and make no cycles; see
    # `collect_for_ever` for what does.
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(SWITCH_S)
    have_large_arrays_apart()
    process = SealingProcess(options.data, (lock,))
    store = await asyncio.to_thread(Store, options.data, decode_entry, options.catalog, process)
    try:
        committer, sealings = Committer(store), SealingCounts()
        doors = (Tokens(folder), Audit(folder)) if guarded else None
        certificates = _certificates(folder, doors[0]) if doors and mutual else None
        guard = Guard(*doors, certificates) if doors else None
        health = Health(store, committer, sealings, options.data, doors[1] if doors else None)
        agents = Agents()
        server = grpc_server(store, committer, guard, health, agents)
        port = _bind(server, listen, _credentials(folder, mutual) if guarded else None)
        host = listen.rpartition(":")[0]
        if mutual:
            _bind(server, _joining(f"{host}:{port}"), _credentials(folder))
        address = health.address = f"{host}:{port}"
        door = Door(*doors, certificates) if doors else None
        manager = ServiceManager()
        stop = _stop_by_signal()
        async with monitored(health, options.data, http, door, manager):
            await server.start()
            how = " with TLS and tokens" if guarded else ""
            if mutual:
                how = f" with TLS and certificates, for joining port {join_port(port)}"
            log.info("roofline-server %s at %s%s, data in %s", __version__, address, how, options.data)
            watching = [guard.watch()] if guard is not None else []
            watching.append(_checkpoint_for_ever(store))
            watching.append(_forget_for_ever(store))
            watching.append(collect_for_ever())
            watching.append(retain_for_ever(store, options.data, options.keep))
            watching.append(health.jobs.run())
            watching.append(Relieving(agents, committer.load).run())
            watching.append(Pacing(committer).run())
            if page:
                log.info("the live page: http%s://%s", "" if _is_private(page) else "s", page)
                watching.append(keep_page(_page_command(page, listen, port, folder)))
            sealing = _seal_for_ever(store, options.seal_s, sealings)
            await _until_stopped(stop, process, server, committer, sealing, watching, health, manager)
    finally:
        await asyncio.to_thread(store.close)
        os.close(lock)


def _page_place(page: str, guarded: bool, taken: Sequence[str] = ()) -> str:
    """Where the live page is served; "": nowhere. taken: where the server itself will listen, as HOST:PORT or
    "". Raises ConfigError or Unavailable where the page was asked for and cannot be."""
    if page == OFF:
        return ""
    if page:
        # With --insecure too: visitors send their tokens.
        check_address(page, guarded, "--page", f"leave it at {DEFAULT_PAGE} (--insecure gives it no TLS)")
        if int(page.rpartition(":")[2]) == 0:
            raise ConfigError(f"--page {page} must name a port: nobody would know which one was taken")
        _check_page_at(page, taken, FREE_S)
        return page
    try:
        _check_page_at(DEFAULT_PAGE, taken)
    except (ConfigError, Unavailable) as error:
        log.info("no live page: %s", error)
        return ""
    return DEFAULT_PAGE


def _check_page_at(page: str, taken: Sequence[str], within_s: float = 0.0) -> None:
    """Raises ConfigError or Unavailable where the page cannot be served."""
    check_page()
    if any(_clash(page, own) for own in taken):
        raise ConfigError(f"{page} is where the server itself listens; --page HOST:PORT chooses another")
    check_free(page, within_s)


def _page_command(page: str, listen: str, port: int, folder: Path) -> list[str]:
    """It asks over loopback, where the server listens there; others reach it over TLS alone."""
    host = listen.rpartition(":")[0]
    host = "127.0.0.1" if host in ANY_HOST else host
    identity = () if _is_private(page) else (folder / access.CERTIFICATE, folder / access.KEY)
    return page_command(page, f"{host}:{port}", identity)


def _http_place(http: str, safe: bool, joining: str = "") -> HttpPlace | None:
    """Where HTTP is served. joining: HOST:PORT that is taken by it; "": none. Raises ConfigError."""
    if http == OFF:
        return None
    listen = http or (MUTUAL_HTTP if _is_same_port(DEFAULT_HTTP, joining) else DEFAULT_HTTP)
    check_address(listen, safe, "--http")
    if _clash(listen, joining):
        raise ConfigError(
            f"--http {listen} is where agents and clients join, as this server asks for certificates (init "
            f"--mutual): choose another port, as {MUTUAL_HTTP.rpartition(':')[2]}"
        )
    return HttpPlace(listen, bool(http), _is_private(listen))


def _joining(listen: str) -> str:
    """Where those join who have no certificate yet."""
    host, _, port = listen.rpartition(":")
    return f"{host}:{join_port(int(port))}"


def _is_same_port(one: str, other: str) -> bool:
    return one.rpartition(":")[2] == other.rpartition(":")[2]


def _clash(one: str, other: str) -> bool:
    """Whether two sockets cannot be bound to these addresses at once."""
    hosts = {one.rpartition(":")[0], other.rpartition(":")[0]}
    return _is_same_port(one, other) and (len(hosts) == 1 or not hosts.isdisjoint(ANY_HOST))


def grpc_server(
    store: Store,
    committer: Committer,
    guard: Guard | None = None,
    health: Health | None = None,
    agents: Agents | None = None,
) -> grpc.aio.Server:
    """A server with its services that is bound to no address yet. guard: None lets everybody in. agents: gets
    those that are connected."""
    server = grpc.aio.server(
        interceptors=[guard] if guard is not None else None,
        options=(
            ("grpc.max_receive_message_length", MAX_BATCH_BYTES + 65536),
            ("grpc.so_reuseport", 0),
            # Else each message that comes is answered with a ping, to find the largest window: a fixed one of
            # so many bytes a stream bounds memory, too.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
            # Agents of a cluster come back at once when the server was away: none is sent away again.
            ("grpc.server.max_pending_requests", 2 * MAX_STREAMS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_STREAMS),
            # Who reaches the port without a token takes neither all descriptors nor all memory (24 KB each).
            ("grpc.max_allowed_incoming_connections", most_connections()),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", IDLE_MS),  # without a call; clients connect again by themselves
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ),
    )
    agents = Agents() if agents is None else agents
    server.add_generic_rpc_handlers((IngestService(store, committer, agents).handler(),))
    limit = guard.limit if guard is not None else lambda: None
    questions = QueryService(store, agents, lambda: committer.granted_share, limit)
    query_pb2_grpc.add_QueryServicer_to_server(questions, server)
    if guard is not None:
        access_pb2_grpc.add_AccessServicer_to_server(guard.enrolment(), server)
    if health is not None:
        HealthService(health).add_to(server)
    return server


def most_connections() -> int:
    """Half of the descriptors at most: the store needs some too."""
    return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _allow_all_descriptors() -> None:
    """One for each agent: the usual soft limit, 1024, is for programs with select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _certificates(folder: Path, tokens: Tokens) -> Certificates:
    from .access.certificates import Certificates  # cryptography, which not every server needs

    return Certificates(folder, tokens)


def _credentials(folder: Path, mutual: bool = False) -> Any:
    from .access.credentials import credentials  # cryptography, which a server without TLS never needs

    return credentials(folder, mutual)


def _bind(server: grpc.aio.Server, listen: str, secured: Any = None) -> int:
    try:
        port = server.add_secure_port(listen, secured) if secured else server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if port == 0:
        raise Unavailable(
            f"cannot listen at {listen}: the port is in use or the address is not this machine's; "
            "stop what holds it, or choose another --listen"
        )
    return int(port)


def _stop_by_signal() -> asyncio.Event:
    """Set when the server is told to stop: from before it says where it listens, as that may be at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(
    stop: asyncio.Event,
    process: SealingProcess,
    server: grpc.aio.Server,
    committer: Committer,
    sealing: Coroutine[Any, Any, None],
    watching: Sequence[Coroutine[Any, Any, None]],
    health: Health,
    manager: ServiceManager,
) -> None:
    committing, seals = asyncio.create_task(committer.run()), asyncio.create_task(sealing)
    health.watch((committing, seals))
    tasks = [committing, seals, *map(asyncio.create_task, watching)]
    for task in tasks:
        task.add_done_callback(_say_why)
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
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _say_why(ended: asyncio.Task[Any]) -> None:
    """What goes on for as long as the server runs has ended: by an error, or as the server stops."""
    if not ended.cancelled() and (error := ended.exception()) is not None:
        log.error("a part of the server has ended; it works again after a restart", exc_info=error)


async def _seal_for_ever(store: Store, seal_s: float, counts: SealingCounts) -> None:
    waited = 0.0
    loop = asyncio.get_running_loop()
    # Always the same thread: the next sealing uses the allocator's memory of the last one again.
    thread = ThreadPoolExecutor(1, thread_name_prefix="seal")
    while True:
        await asyncio.sleep(min(LOOK_S, seal_s))
        waited += min(LOOK_S, seal_s)
        soon = store.job_ended and waited >= SEAL_ENDED_S
        if waited < seal_s and store.unsealed_bytes < SEAL_BYTES and not soon:
            continue
        waited = 0.0
        begin = time.monotonic()
        try:
            await loop.run_in_executor(thread, store.seal)
            counts.succeeded(time.monotonic() - begin)
            await loop.run_in_executor(thread, give_back)
        except Exception as error:
            # Nothing is lost: all of it is still in the inbox.
            if not counts.failure:
                log.error("cannot seal (%s); the data stays in the inbox, trying again", error)
            counts.was_failure(str(error) or type(error).__name__)


async def _checkpoint_for_ever(store: Store) -> None:
    """Commits of large batches would take twice as long if they did that."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        await asyncio.get_running_loop().run_in_executor(thread, store.checkpoint)


async def _forget_for_ever(store: Store) -> None:
    """What was read for questions goes when nobody asks for it any more."""
    while True:
        await asyncio.sleep(FORGET_S)
        if store.forget() > MUCH_BYTES:
            await asyncio.to_thread(give_back)


def _take(lock: int) -> None:
    """Raises OSError where another server has it. `roofline-server status` holds it for a moment to look."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOCK_AGAIN_S)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_directory(data: Path) -> int:
    """Makes sure that no other server works there, until the descriptor is closed."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        if data.stat().st_uid == os.getuid():
            data.chmod(0o700)  # jobs are of several users, and none may read those of others
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"cannot write the data directory {data}: {error.strerror}; choose another --data"
        ) from None
    try:
        _take(lock)
    except OSError:
        os.close(lock)
        raise Unavailable(
            f"another roofline-server works with {data}; stop it, or choose another --data"
        ) from None
    return lock
