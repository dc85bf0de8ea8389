"""The agent's one loop: find ranks, sample them, take marks, close a batch a second."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import resource
import select
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.notify import ServiceManager

from . import __version__
from .calibrate.calibration import Ceiling
from .ceilings import Ceilings
from .config import SYSTEM_SOCKET, Config, keep_access, known_access
from .errors import Unavailable
from .machine import boot_id, read_machine
from .marks.listener import MarkListener
from .marks.receiver import MarkReceiver
from .netbench.bench import NetBench
from .ranks.discovery import Discovery
from .ranks.settings import LEFT, RankFacts, facts_of_claims
from .records import Batch, Event, EventKind, Rank, SourceSettings
from .sampler import Sampler
from .schedule import Task
from .sources import CHECKED_ONCE, UNSEEN, make_sources
from .uplink.batching import Batching
from .uplink.bounds import printable
from .uplink.encoding import Greeting, encode_within
from .uplink.exporter import Exporter
from .uplink.order import Ends
from .uplink.spool import Spool
from .validate.caveats import KeptCaveats

if TYPE_CHECKING:
    from .otlp.ranks import OtlpRanks

log = logging.getLogger(__name__)

SCAN_NS = 2_000_000_000
# Longest that connected processes are left alone: those that are new or send much, and others.
BUSY_STRIDE_S, CALM_STRIDE_S = 0.125, 1.0
MANY, CALM_READS = 40, 10  # packets of one process at a read (its socket holds some 400), reads with fewer
DRAIN_S = 3.0
ROWS_S = 0.05  # a batch waits so long for the rows of a round that has just begun
# How the texts of these facts begin.
SLOWED, FEWER, HELD = "sampling.slowed=", "kernels.fewer=", "batches.held="
MOST_FEWER = 16  # times
MAX_REASON = 100  # characters
BUSY = "the server was busy"  # why it asks for longer batches
LAST_ROWS_S = 1.0  # and the last one of an agent's life so long


class Daemon:
    """One agent: everything it holds, and `run` until `stop`."""

    def __init__(self, config: Config, environ: Mapping[str, str] = os.environ) -> None:
        """Take what the agent needs. Raises Unavailable or ConfigError when it cannot be had."""
        # One connection per process that marks; the usual soft limit, 1024, is for programs with select().
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._halt = False
        # Written to by stop(), so that a waiting loop wakes at once.
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.state = config.state_directory(environ)
        self._lock = _lock(self.state)
        self._spool = Spool(self.state / "spool.db", config.spool_mb << 20)
        self.socket = config.socket_path(environ)
        self._discovery = Discovery(default_job=config.job, socket=self.socket)
        everyone = os.getuid() == 0 or self.socket == SYSTEM_SOCKET
        self._listener = MarkListener(self.socket, everyone)
        self._receiver = MarkReceiver(self._listener, self._discovery)
        self._otlp: OtlpRanks | None = None
        if (address := config.otlp_address) is not None:
            self._otlp = _otlp(address, self._receiver)
        self._poller = select.poll()
        for descriptor in (self._listener.fileno(), self._wake):
            self._poller.register(descriptor, select.POLLIN)
        settings = SourceSettings(interval_ns=config.interval_ns, environ=environ)
        self._sources = make_sources(config.sources, settings)
        self._machine = read_machine()
        self._caveats = KeptCaveats(self.state, self._machine)
        self._sampler = Sampler(self._sources, caveats=self._caveats.now, once=CHECKED_ONCE)
        self._instance = uuid.uuid4().hex
        self._boot = boot_id()
        self._agent = self._spool.identity(uuid.uuid4().hex)
        self._ceilings = Ceilings(self.state, self._machine)
        load_access = partial(known_access, self.state, config.server)
        self._exporter = Exporter(
            config.server,
            self._spool,
            self._greeting,
            self._set_interval,
            net_bench=NetBench(self._keep_net_ceilings),
            access=load_access(),
            keep=partial(keep_access, self.state, config.server),
            trace=lambda order: self._receiver.traces.add(order),
            hold=self._hold,
            load=load_access,
        )
        self._rank_facts = RankFacts()
        self._claims: dict[str, str] = {}
        self._events: list[Event] = []
        self._begin_ns = now = time.monotonic_ns()
        self._scanning = Task(SCAN_NS, now)
        self._sampling = Task(config.interval_ns, now)
        self._own_interval_ns = config.interval_ns
        # Facts of the node while it takes less than asked for here (none: it does not), since the last batch;
        # the last ones hold now.
        self._slowed: list[list[str]] = [[]]
        self._batching = Batching(now)
        self._reported_drops = self._reported_damaged = 0
        self._ranks_came = False  # since the last batch: reports of their jobs show the notices of the server
        self._sampled = False
        self._ends = Ends()
        self._without_socket = False
        self._calm_reads = 0
        self._manager = ServiceManager(environ)

    def stop(self) -> None:
        """Ask the loop to end; safe in a signal handler."""
        self._halt = True
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    def run(self) -> None:
        """Work until stopped, then hand over what is left."""
        log.info("agent %s on %s, marks at %s", __version__, self._machine.host, self.socket)
        for status in self._sampler.statuses:
            if not status.works:
                log.info("source %s is off: %s", status.name, status.reason)
            if status.caveat:
                log.warning("source %s: %s", status.name, status.caveat)
        if not self._ceilings.measured:
            log.info("no ceilings yet: run `roofline-agent calibrate` once on this node, when it is idle")

        self._exporter.start()
        now = self._begin_ns
        self._events.append(Event(EventKind.AGENT_STARTED, now, now, text=f"agent {__version__} started"))
        # What exists now stays: looking at it again and again would be most of an idle agent's work.
        gc.freeze()
        self._manager.ready()
        try:
            while not self._halt:
                self._manager.alive()
                self._receiver.receive()
                if self._receiver.is_half_full:
                    self._batching.half_full()
                if self._listener.full:
                    self._receiver.accept()
                now = time.monotonic_ns()
                if self._scanning.due(now):
                    self._scan(now)
                if self._sampling.due(now):
                    self._sample()
                if self._batching.due(now):
                    self._close_batch()
                self._wait()
        finally:
            self._finish()

    def _wait(self) -> None:
        """Until something is due, a stride is over, or a process connects (it may not live for long)."""
        next_ns = min(self._scanning.next_ns, self._sampling.next_ns, self._batching.next_ns)
        seconds = max(0.0, (next_ns - time.monotonic_ns()) / 1e9)
        if self._receiver.connections:
            self._calm_reads = self._calm_reads + 1 if self._listener.most_waited < MANY else 0
            stride_s = CALM_STRIDE_S if self._calm_reads > CALM_READS else BUSY_STRIDE_S
            seconds = min(stride_s, seconds)
        # Somebody who cannot be taken in would keep the socket readable and this loop awake.
        self._poller.modify(self._listener.fileno(), 0 if self._listener.full else select.POLLIN)
        if self._poller.poll(1000 * seconds):
            self._receiver.accept()
            self._calm_reads = 0

    def _scan(self, now: int) -> None:
        """Find the ranks that have started or ended; and have a socket that they can connect to."""
        self._renew_socket()
        started, gone = self._discovery.scan()
        self._report(started, gone, now)

    def _renew_socket(self) -> None:
        before = self._listener.fileno()
        try:
            if not self._listener.renew():
                return
        except Unavailable as error:
            if not self._without_socket:
                log.error("ranks that start from now on send no marks: %s", error)
            self._without_socket = True
            return
        log.warning("the socket %s had been removed; it is there again", self.socket)
        self._without_socket = False
        self._poller.unregister(before)
        self._poller.register(self._listener.fileno(), select.POLLIN)

    def _report(self, started: Sequence[Rank], gone: Sequence[Rank], now: int) -> None:
        """Events of the ranks that have started or ended since the last time."""
        if started or gone:
            self._batching.ranks_changed(now)
        for rank in started:
            log.info("found %s of job %s (pid %d, %s)", rank.key, rank.job, rank.pid, rank.framework)
            self._events.append(Event(EventKind.RANK_STARTED, now, now, rank))
            self._ranks_came = True
            if other := self._discovery.job_of_other(rank):
                text = f"job.refused={other}"
                self._events.append(Event(EventKind.FACT, now, now, rank, text=text))
        self._events += facts_of_claims(self._discovery.claims(), self._claims, now)
        for rank in gone:
            log.info("%s of job %s has ended (pid %d)", rank.key, rank.job, rank.pid)
            self._events.append(Event(EventKind.RANK_EXITED, now, now, rank))
        if started:
            found = [(rank, self._discovery.environment(rank)) for rank in started]
            self._events += self._rank_facts.of_started(found, list(self._discovery.ranks.values()), now)
        for source in filter(self._sources.__contains__, UNSEEN):
            for rank in started:
                why = UNSEEN[source](str(self._discovery.proc), rank.pid)
                if why:
                    self._events.append(Event(EventKind.FACT, now, now, rank, text=f"source.{source}={why}"))

    def _sample(self) -> None:
        ranks = list(self._discovery.ranks.values())
        # A node without ranks has nothing to report; once more after the last has gone, so that what counted
        # it can end.
        if ranks or self._sampled:
            self._sampler.ask(ranks)
        self._sampled = bool(ranks)

    def _close_batch(self) -> None:
        """Put everything since the last batch into the spool, and have it sent."""
        end = time.monotonic_ns()
        batch = self._gather(end)
        self._events, self._begin_ns = [], end
        size = self._keep(batch)
        self._batching.closed(end, self._sampling.period_ns, size)
        self._exporter.push()
        self._manager.status(f"{len(batch.ranks)} ranks")
        if self._caveats.read():
            self._sampler.mark(self._caveats.now)
        if self._ceilings.read() or self._sampler.changed:
            self._sampler.changed = False
            self._exporter.greet_again()

    def _gather(self, end: int) -> Batch:
        """What was sampled and received since the last batch, and what happened meanwhile."""
        self._receiver.receive()
        if self._otlp is not None:
            self._otlp.receive()
        self._sampler.wait(ROWS_S)
        samples, failures = self._sampler.take()
        # Who is in a batch was alive at its end, so that whoever starts after it is seen to be another run.
        self._report(*self._discovery.changes(), end)
        received = self._receiver.take(end)
        ended, self._receiver.ended = self._receiver.ended, []
        self._events += self._rank_facts.of_ended(ended, end)
        # In the batch with the first marks of those that they turned out to be.
        for rank in self._discovery.take_left():
            self._events.append(Event(EventKind.FACT, end, end, rank, text=LEFT))
        events = [*self._events, *failures, *received.events]
        events = [self._receiver.with_last_step(event) for event in events]
        return Batch(
            self._begin_ns,
            end,
            samples,
            received.marks,
            received.calls,
            [*events, *self._events_of_agent(end)],
            list(self._discovery.ranks.values()),
            received.spans,
            received.steps,
        )

    def _events_of_agent(self, end: int) -> Iterator[Event]:
        """What server and agent did to the batch: notices, batches lost, samples taken less often."""
        for text in self._exporter.take_notices(self._ranks_came):
            yield Event(EventKind.FACT, end, end, text=text)
        self._ranks_came = False
        dropped = self._spool.dropped - self._reported_drops
        if dropped:
            self._reported_drops += dropped
            yield Event(EventKind.LOST, self._begin_ns, end, None, dropped, "batches (spool full)")
        damaged = self._spool.damaged - self._reported_damaged
        if damaged:
            self._reported_damaged += damaged
            yield Event(EventKind.LOST, self._begin_ns, end, None, damaged, "batches (spool damaged)")
        slowed = list(self._slowed)
        del self._slowed[: len(slowed) - 1]
        texts = dict.fromkeys(text for facts in slowed for text in facts)
        if held_ns := self._batching.held_ns:
            texts[f"{HELD}{held_ns / 1e9:g} s: {BUSY}"] = None
        for text in texts:
            yield Event(EventKind.FACT, self._begin_ns, end, None, text=text)

    def _keep(self, batch: Batch) -> int:
        """Put a batch into the spool: its size in bytes, 0 when that failed."""
        try:
            with self._spool.numbering:
                sequence = self._spool.next_sequence()
                data = encode_within(batch, sequence, lineage=self._spool.lineage, boot=self._boot)
                self._spool.append(sequence, data, self._ends.has(batch))
        except Exception as error:
            # Whatever was in it, the agent must outlive it; the next batch says that this one is missing.
            log.exception("a batch could not be encoded and is lost")
            reason = f"batches (not encodable: {error})"
            self._events.append(Event(EventKind.LOST, batch.begin_ns, batch.end_ns, None, 1, reason))
            return 0
        return len(data)

    def _finish(self) -> None:
        """One last batch, and time for the server to take it."""
        self._manager.stopping()
        self._receiver.receive()
        self._scan(time.monotonic_ns())
        self._sample()
        self._sampler.wait(LAST_ROWS_S)
        self._close_batch()
        if not self._exporter.drain(DRAIN_S):
            log.warning("the server has not taken everything; the rest waits in %s", self.state)
        self._exporter.stop()
        self._sampler.close()
        if self._otlp is not None:
            self._otlp.close()
        self._listener.close()
        self._spool.close()
        os.close(self._lock)

    def _greeting(self) -> Greeting:
        return Greeting(
            self._agent,
            self._instance,
            self._boot,
            __version__,
            self._machine,
            self._ceilings.all(),
            self._sampler.statuses,
            self._sampling.period_ns,
            time.monotonic_ns(),
            self._spool.lineage,
            self._own_interval_ns,
        )

    def _set_interval(self, interval_ns: int, reason: str, fewer: int = 1) -> None:
        """What the server asks for; 0: the agent's own again. fewer: kernels of so many times fewer steps. In
        the exporter's thread."""
        wanted_ns = max(10_000_000, min(60_000_000_000, interval_ns or self._own_interval_ns))
        self._sampling.change(wanted_ns, time.monotonic_ns())
        fewer = self._receiver.fewer = max(1, min(MOST_FEWER, fewer))
        facts, why = [], printable(reason)[:MAX_REASON]
        if why and wanted_ns > self._own_interval_ns:
            facts.append(f"{SLOWED}{wanted_ns / 1e9:g} s: {why}")
        if why and fewer > 1:
            facts.append(f"{FEWER}{fewer}: {why}")
        self._slowed.append(facts)
        self._exporter.greet_again()

    def _hold(self, hold_ns: int) -> None:
        """So long the server asks to gather a batch; 0: as long as this agent likes. In the exporter's
        thread."""
        self._batching.hold_ns = hold_ns

    def _keep_net_ceilings(self, new: Sequence[Ceiling]) -> None:
        self._ceilings.keep_net(new)
        self._exporter.greet_again()


def _otlp(address: tuple[str, int], receiver: MarkReceiver) -> OtlpRanks:
    """Raises ConfigError, Unavailable."""
    from .otlp.door import OtlpDoor
    from .otlp.ranks import OtlpRanks

    log.info("spans are taken by OTLP at http://%s:%d", *address)
    return OtlpRanks(OtlpDoor(address), receiver)


def _lock(state: Path) -> int:
    """The descriptor of the state directory's lock: two agents with one identity would share one sequence."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"cannot use the state directory {state}: {error.strerror}; choose another --state"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Unavailable(
            f"another agent already works with {state}; stop it, or choose another --state"
        ) from None
    return lock
