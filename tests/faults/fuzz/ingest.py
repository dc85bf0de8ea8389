"""Messages of agents: decoding alone, and whole jobs of odd batches that are stored and asked about."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2, query_pb2
from roofline.v1.machine_pb2 import Machine
from roofline_server.errors import BadBatch, ServerError
from roofline_server.ingest.decode import decode, parse
from roofline_server.ingest.machine import decode_machine
from roofline_server.ingest.service import decode_entry
from roofline_server.query.answers import Answers
from roofline_server.records import NodeKey
from roofline_server.store.intake.entries import Entry
from roofline_server.store.store import Store

from tests.server.builders import batch, full_batch, machine, rank, training

from ..sender import made_batch
from .mutate import INTS, mutate_message, mutated
from .running import Reach

RENEW = 20_000  # inputs of one store: names that came once stay known to it
SECOND = 1_000_000_000
KEY = NodeKey("agent", "boot")
JOB = "job"


def memory_folder() -> Path:
    """A new folder in memory where there is such a place: thousands of commits wait for no disk."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    return Path(tempfile.mkdtemp(prefix="roofline-fuzz-", dir=place))


class _Stored:
    """A store in a folder of its own."""

    def __init__(self) -> None:
        self.folder = memory_folder()
        self.store = Store(self.folder / "data", decode_entry)
        self.node = self.store.hello(KEY, machine())

    def take(self, number: int, message: Any) -> bool:
        """Check, decode and commit a batch as the service does; False where it is refused."""
        message.batch.sequence = number
        data = message.SerializeToString()
        try:
            decoded = decode(message.batch, self.node, self.store.name_ids)
        except BadBatch:
            return False
        entry = Entry(0, KEY.agent, number, self.node, self.store.now_ns(), data)
        self.store.commit([(entry, decoded)])
        return True

    def close(self) -> None:
        with contextlib.suppress(Exception):  # a store that an odd input has broken
            self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _hello() -> pb.AgentMessage:
    return pb.AgentMessage(
        hello=pb.Hello(
            protocol=1,
            agent="agent",
            instance="1",
            boot="boot",
            version="1",
            machine=Machine(host="node1", cpus=2),
            sources=[{"name": "process", "works": True}],
            interval_ns=SECOND,
            node_ns=SECOND,
        )
    )


def _batches() -> list[pb.AgentMessage]:
    steps = pb.Steps(
        rank=0, marks=2, like=1, names=["phase.input"], counted=1, numbers=_ints(5, 32, 10, 20, 11, 12, 1)
    )
    spans = pb.Spans(
        rank=_ints(0), name=_ints(0), begin_ns=_ints(10 * SECOND), end_ns=_ints(10 * SECOND + 5),
        bytes=_ints(7), count=_ints(1), names=["phase.input", "asked.allreduce"],
    )  # fmt: skip
    more = batch(ranks=[rank()], steps=[steps], spans=spans, instances=["socket 0"])
    found = [full_batch(), more, *training([rank(), rank(index=1, pid=101)], batches=3)]
    return [pb.AgentMessage(batch=one) for one in found]


def _ints(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


class Ingest:
    """One message: parsed, checked, decoded."""

    def __init__(self) -> None:
        self._good = [_hello(), *_batches(), made_batch(1, 1, 8, SECOND, 2 * SECOND)]
        self._data = [one.SerializeToString() for one in self._good]
        self._stored, self._fed = _Stored(), 0

    def make(self, chance: random.Random) -> list[bytes]:
        if chance.random() < 0.4:
            return [mutated(chance.choice(self._data), self._data, chance)]
        message = pb.AgentMessage()
        message.CopyFrom(chance.choice(self._good))
        for _ in range(chance.randint(1, 4)):
            mutate_message(message, chance)
        return [message.SerializeToString()]

    def feed(self, parts: list[bytes]) -> Reach:
        self._fed += 1
        if self._fed % RENEW == 0:
            self._stored.close()
            self._stored = _Stored()
        read = taken = 0
        for data in parts:
            with contextlib.suppress(BadBatch):
                message = parse(data)
                kind = message.WhichOneof("kind")
                read += kind in ("hello", "batch")
                if kind == "hello":
                    decode_machine(message.hello)
                elif kind == "batch":
                    decode(message.batch, self._stored.node, self._stored.store.name_ids)
                taken += kind in ("hello", "batch")
        return Reach(read, taken)

    def close(self) -> None:
        self._stored.close()


class Stored:
    """A few odd batches: committed, sealed, and all questions asked, before and after sealing."""

    def __init__(self) -> None:
        self._good = _batches()

    def make(self, chance: random.Random) -> list[bytes]:
        parts = []
        for good in self._good:
            message = pb.AgentMessage()
            message.CopyFrom(good)
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                mutate_message(message, chance)
            if message.HasField("batch") and chance.random() < 0.9:
                parts.append(message.SerializeToString())
        return parts

    def feed(self, parts: list[bytes]) -> Reach:
        stored, read, taken = _Stored(), 0, 0
        try:
            for number, data in enumerate(parts, 1):
                with contextlib.suppress(BadBatch):
                    message = parse(data)
                    if message.WhichOneof("kind") == "batch":
                        read += 1
                        taken += stored.take(number, message)
            ask_everything(stored.store)
            stored.store.seal()
            ask_everything(stored.store)
        finally:
            stored.close()
        return Reach(read, taken)

    def close(self) -> None:
        pass


# -- questions -----------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Any] = {
    "report": query_pb2.GetReportRequest(job=JOB),
    "stragglers": query_pb2.GetStragglersRequest(job=JOB),
    "steps": query_pb2.GetStepsRequest(job=JOB),
    "timeline": query_pb2.GetStepsRequest(job=JOB, kernels=True),
    "export": query_pb2.ExportRequest(job=JOB),
    "what_if": query_pb2.GetWhatIfRequest(job=JOB, ranks=4),
    "comparison": query_pb2.GetComparisonRequest(first=JOB, second=JOB),
    "roofline": models_pb2.GetRooflineRequest(subject={"job": JOB}, kind="classic"),
    "time_roofline": models_pb2.GetTimeRooflineRequest(subject={"job": JOB}),
    "trajectory": models_pb2.GetTrajectoryRequest(jobs=[JOB], over="ranks"),
    "breakdown": models_pb2.GetBreakdownRequest(subject={"job": JOB}),
    "efficiency": models_pb2.GetEfficiencyRequest(subject={"job": JOB}, flops_per_step=1.0),
    "machines": models_pb2.GetMachinesRequest(history=True),
}
WORDS = (
    JOB,
    "",
    "job/1",
    "worker:0",
    "ps:0",
    "steps",
    "kernels",
    "phases",
    "hierarchical",
    "network",
    "dram",
)


def ask(answers: Answers, name: str, request: Any) -> bool:
    """False where it is refused. Raises what is neither an answer nor a refusal."""
    try:
        answer = getattr(answers, name)(request)
        if not hasattr(answer, "SerializeToString"):
            for _ in answer:
                pass
    except ServerError:
        return False
    return True


def ask_everything(store: Store) -> None:
    answers = Answers(store)
    answers.jobs()
    for name, request in QUESTIONS.items():
        for job in sorted(store.jobs())[:2]:
            ask(answers, name, about(request, job))


def about(request: Any, job: str) -> Any:
    """The same question about another job."""
    asked = type(request)()
    asked.CopyFrom(request)
    for field, _ in request.ListFields():
        if field.name in ("job", "first", "second"):
            setattr(asked, field.name, job)
    if hasattr(asked, "subject"):
        asked.subject.job = job
    return asked


class Questions:
    """Odd questions about a good job. The first byte of an input says which question it is."""

    def __init__(self) -> None:
        self._stored = _Stored()
        for number, message in enumerate(_batches(), 1):
            assert self._stored.take(number, message)
        self._stored.store.seal()
        self._answers = Answers(self._stored.store)
        self._names = list(QUESTIONS)

    def make(self, chance: random.Random) -> list[bytes]:
        which = chance.randrange(len(self._names))
        request = type(QUESTIONS[self._names[which]])()
        request.CopyFrom(QUESTIONS[self._names[which]])
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.5:
                mutate_message(request, chance)
            else:
                _with_word(request, chance)
        data = request.SerializeToString()
        if chance.random() < 0.2:
            data = mutated(data, (), chance)
        return [bytes([which]) + data]

    def feed(self, parts: list[bytes]) -> Reach:
        read = taken = 0
        for data in parts:
            name = self._names[data[0] % len(self._names)]
            try:
                request = type(QUESTIONS[name]).FromString(data[1:])
            except DecodeError:
                continue  # gRPC refuses it
            read += 1
            taken += ask(self._answers, name, request)
        return Reach(read, taken)

    def close(self) -> None:
        self._stored.close()


def _with_word(request: Any, chance: random.Random) -> None:
    """Put a word that means something into some field for text, or a number into one for numbers."""
    field = chance.choice(request.DESCRIPTOR.fields)
    many = hasattr(getattr(request, field.name), "append")
    if field.cpp_type == field.CPPTYPE_STRING:
        word = chance.choice(WORDS)
        getattr(request, field.name).append(word) if many else setattr(request, field.name, word)
    elif field.cpp_type == field.CPPTYPE_INT64 and not many:
        setattr(request, field.name, chance.choice((*INTS, 3, 5)))
