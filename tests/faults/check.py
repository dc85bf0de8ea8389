"""Holds what a server has against what was sent and acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np
from numpy.typing import NDArray
from roofline.v1 import query_pb2, query_pb2_grpc

from .sender import COLUMN, DATASET, STEPS, Sender, job_of, ranks_of, row_id

Ints = NDArray[np.int64]
ANSWER_S = 1800.0  # of an hour at 20,000 rows/s, on a machine with other work


class Tally(NamedTuple):
    """Rows, and rows of the table of steps. lost: acknowledged, not there; unknown: there, never sent."""

    acked: int
    lost: int
    doubled: int
    unknown: int
    steps: int
    steps_lost: int
    steps_doubled: int
    steps_unknown: int

    @property
    def is_exact(self) -> bool:
        return not any((self.lost, self.doubled, self.unknown)) and not any(self[5:])


def tally(acked: Ints, sent: Ints, found: Ints) -> tuple[int, int, int]:
    """How many numbers are lost, doubled and unknown. Each of `acked` and of `sent` is there once."""
    kinds, counts = np.unique(found, return_counts=True)
    lost = len(np.setdiff1d(acked, kinds, assume_unique=True))
    unknown = len(np.setdiff1d(kinds, sent, assume_unique=True))
    return lost, int((counts - 1).sum()), unknown


def expected_rows(sender: Sender, sequence: int) -> Ints:
    """All rows of its batches up to this one."""
    numbers = np.arange(1, sequence + 1, dtype=np.int64)[:, None] << 16
    return (row_id(sender.number, 0, 0) | numbers | np.arange(sender.rows, dtype=np.int64)).reshape(-1)


def expected_steps(sender: Sender, sequence: int) -> Ints:
    steps = np.arange(sequence * STEPS, dtype=np.int64)
    return np.concatenate([index << 40 | steps for index in ranks_of(sender.number)])


def check(address: str, senders: Sequence[Sender]) -> Tally:
    """Ask the server for everything. Raises grpc.RpcError."""
    totals = np.zeros(8, np.int64)
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        query = query_pb2_grpc.QueryStub(channel)
        for job in sorted({job_of(sender.number) for sender in senders}):
            mine = [sender for sender in senders if job_of(sender.number) == job]
            if not any(sender.acked for sender in mine):
                continue
            chunks = query.Export(query_pb2.ExportRequest(job=job), timeout=ANSWER_S)
            totals[:4] += tally_rows(mine, columns(chunks, f"samples_{DATASET}", COLUMN))
            steps = np.concatenate([expected_steps(sender, sender.acked) for sender in mine])
            begun = np.concatenate([expected_steps(sender, sender.sequence) for sender in mine])
            answer = query.GetSteps(query_pb2.GetStepsRequest(job=job), timeout=ANSWER_S)
            totals[4:] += (len(steps), *tally(steps, begun, steps_in(answer)))
    return Tally(*totals.tolist())


def tally_rows(senders: Sequence[Sender], found: Iterable[Ints]) -> tuple[int, int, int, int]:
    """Rows acknowledged, lost, doubled and unknown. Takes a byte for each row that was sent, as an hour has
    tens of millions of them."""
    counts = {one.number: np.zeros((one.sequence, one.rows), np.uint8) for one in senders}
    doubled = unknown = 0
    for rows in found:
        kinds, times = np.unique(rows, return_counts=True)
        doubled += int((times - 1).sum())
        known = np.zeros(len(kinds), bool)
        for number, times_of in counts.items():
            sequence, row = (kinds >> 16) & 0xFFFFFFFF, kinds & 0xFFFF
            mine = (kinds >> 48 == number) & (sequence > 0) & (sequence <= len(times_of))
            mine &= row < times_of.shape[1]
            at = sequence[mine] - 1, row[mine]
            doubled += int(np.count_nonzero(times_of[at]))
            times_of[at] = 1
            known |= mine
        unknown += int(np.count_nonzero(~known))
    acked = sum(one.acked * one.rows for one in senders)
    lost = sum(int(np.count_nonzero(counts[one.number][: one.acked] == 0)) for one in senders)
    return acked, lost, doubled, unknown


def columns(chunks: Iterable[Any], dataset: str, name: str) -> Iterator[Ints]:
    """One column of integers, in pieces."""
    for chunk in chunks:
        if chunk.dataset == dataset:
            for one in chunk.columns:
                if one.name == name:
                    yield np.frombuffer(one.ints, np.int64)


def steps_in(chunks: Iterable[Any]) -> Ints:
    """Rank and step of each row, as `expected_steps` has them."""
    parts = [np.zeros(0, np.int64)]
    for chunk in chunks:
        columns = {one.name: one for one in chunk.columns}
        ranks = [int(name.rpartition(":")[2]) for name in columns["rank"].texts]
        steps = np.frombuffer(columns["step"].ints, np.int64)
        parts.append(np.array(ranks, np.int64) << 40 | steps)
    return np.concatenate(parts)


def with_steps(known: Tally, address: str, job: str, count: int) -> Tally:
    """The same with the steps of a job of one worker, 0 to count - 1, next to it. Raises grpc.RpcError."""
    found = _steps_of(address, job)
    expected = np.arange(count, dtype=np.int64)
    lost, doubled, unknown = tally(expected, expected, found)
    return known._replace(
        steps=known.steps + count,
        steps_lost=known.steps_lost + lost,
        steps_doubled=known.steps_doubled + doubled,
        steps_unknown=known.steps_unknown + unknown,
    )


def count_steps(address: str, job: str) -> int:
    """How many steps of a job are known; 0 where the server does not answer."""
    try:
        return len(_steps_of(address, job))
    except grpc.RpcError:
        return 0


def _steps_of(address: str, job: str) -> Ints:
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        query = query_pb2_grpc.QueryStub(channel)
        return steps_in(query.GetSteps(query_pb2.GetStepsRequest(job=job), timeout=60))
