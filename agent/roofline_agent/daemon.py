"""The agent's one loop: find ranks, sample them, take marks, close a batch a second."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import resource
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.facts import HELD
from roofline.notify import ServiceManager

from . import __version__
from .calibrate.calibration import Ceiling
from .ceilings import Ceilings
from .config import SYSTEM_SOCKET, Config, keep_access, known_access
from .errors import Unavailable
from .machine import boot_id, read_machine
from .marks.listener import MarkListener
from .marks.receiver import MarkReceiver
from .marks.waiting import Waiting
from .netbench.bench import NetBench
from .ranks.discovery import Discovery
from .ranks.events import RankEvents
from .records import Batch, Event, EventKind, Rank, SourceSettings
from .sampler import Sampler
from .schedule import Task
from .sources import CHECKED_ONCE, UNSEEN, make_sources
from .uplink.batching import Batching
from .uplink.encoding import Greeting, encode_within
from .uplink.exporter import Exporter
from .uplink.order import Ends
from .uplink.sampling_request import SamplingRequest
from .uplink.spool import Spool
from .validate.caveats import KeptCaveats

if TYPE_CHECKING:
    from .otlp.ranks import OtlpRanks

log = logging.getLogger(__name__)

SCAN_NS = 2_000_000_000
DRAIN_S = 3.0
ROWS_S = 0.05  # a batch waits so long for the rows of a round that has just begun
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
        self.state = config.state_directory(environ)
        self._lock = _lock(self.state)
        self._spool = Spool(self.state / "spool.db", config.spool_mb << 20)
        self.socket = config.socket_path(environ)
        self._discovery = Discovery(
            default_job=config.job, socket=self.socket, adopted=self.state / "adopted.json"
        )
        everyone = os.getuid() == 0 or self.socket == SYSTEM_SOCKET
        self._listener = MarkListener(self.socket, everyone)
        self._receiver = MarkReceiver(self._listener, self._discovery)
        self._waiting = Waiting(self._listener, self._receiver)
        self._otlp: OtlpRanks | None = None
        if (address := config.otlp_address) is not None:
            self._otlp = _otlp(address, self._receiver)
        settings = SourceSettings(interval_ns=config.interval_ns, environ=environ)
        sources = make_sources(config.sources, settings)
        self._rank_events = RankEvents(
            self._discovery, {name: why for name, why in UNSEEN.items() if name in sources}
        )
        self._machine = read_machine()
        self._caveats = KeptCaveats(self.state, self._machine)
        self._sampler = Sampler(sources, caveats=self._caveats.now, once=CHECKED_ONCE)
        self._sampled = False
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
        self._begin_ns = now = time.monotonic_ns()
        self._scanning = Task(SCAN_NS, now)
        self._sampling = Task(config.interval_ns, now)
        self._batching = Batching(now)
        self._sampling_request = SamplingRequest(self._sampling)
        self._events: list[Event] = []
        self._ends = Ends()
        self._manager = ServiceManager(environ)

    def stop(self) -> None:
        """Ask the loop to end; safe in a signal handler."""
        self._halt = True
        self._waiting.wake()

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
                self._waiting.until(
                    min(self._scanning.next_ns, self._sampling.next_ns, self._batching.next_ns)
                )
        finally:
            self._finish()

    def _scan(self, now: int) -> None:
        """Find the ranks that have started or ended; and have a socket that they can connect to."""
        self._waiting.renew_socket()
        started, gone = self._discovery.scan()
        self._report(started, gone, now)

    def _report(self, started: Sequence[Rank], gone: Sequence[Rank], now: int) -> None:
        if started or gone:
            self._batching.ranks_changed(now)
        self._events += self._rank_events.of_changes(started, gone, now)

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
        started, gone = self._discovery.changes()
        self._report(started, gone, end)
        if gone:  # what they sent last may have come only now, and their end says which step that was
            self._receiver.receive()
        received = self._receiver.take(end)
        ended, self._receiver.ended = self._receiver.ended, []
        self._events += self._rank_events.at_close(ended, end)
        events = [*self._events, *failures, *received.events]
        events = [self._receiver.with_last_step(event) for event in events]
        batch = Batch(
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
        return batch._replace(events=[*batch.events, *self._rank_events.of_moved(batch, end)])

    def _events_of_agent(self, end: int) -> Iterator[Event]:
        """What server and agent did to the batch: notices, batches lost, samples taken less often."""
        # Reports of the jobs of new ranks show the notices of the server.
        for text in self._exporter.take_notices(self._rank_events.take_started()):
            yield Event(EventKind.FACT, end, end, text=text)
        for count, why in self._spool.take_losses():
            yield Event(EventKind.LOST, self._begin_ns, end, None, count, f"batches ({why})")
        texts = self._sampling_request.take_facts()
        if held_ns := self._batching.held_ns:
            texts.append(f"{HELD}={held_ns / 1e9:g} s: {BUSY}")
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
            agent=self._agent,
            instance=self._instance,
            boot=self._boot,
            version=__version__,
            machine=self._machine,
            ceilings=self._ceilings.all(),
            sources=self._sampler.statuses,
            interval_ns=self._sampling.period_ns,
            node_ns=time.monotonic_ns(),
            lineage=self._spool.lineage,
            own_interval_ns=self._sampling_request.own_interval_ns,
        )

    def _set_interval(self, interval_ns: int, reason: str, fewer: int = 1) -> None:
        """What the server asks for, in the exporter's thread."""
        self._sampling_request.change(interval_ns, reason, fewer)
        self._receiver.fewer = self._sampling_request.fewer
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
    from .otlp.ranks import OtlpRanks
    from .otlp.receiver import OtlpReceiver

    log.info("spans are taken by OTLP at http://%s:%d", *address)
    return OtlpRanks(OtlpReceiver(address), receiver)


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
    except BlockingIOError:
        os.close(lock)
        raise Unavailable(
            f"another agent already works with {state}; stop it, or choose another --state"
        ) from None
    except OSError as error:
        os.close(lock)
        raise Unavailable(
            f"cannot lock {state}: {error.strerror}; choose a --state on a local disk, as some network file "
            "systems have no locks"
        ) from None
    return lock
