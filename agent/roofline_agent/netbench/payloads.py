"""Payloads as in TF-gRPC-Bench (Biswas, Lu, Panda 2018, table 1 and section 3.2).

A payload is ten buffers of three sizes: small 10 bytes, medium 10 KiB, large 1 MiB (the paper's defaults).
*Uniform* shares the ten evenly among the sizes it is made of, in turn from the smallest; *random* draws each
buffer's size, with a fixed seed so that every run has the same; *skewed* has the paper's bias: six large,
three medium, one small.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SIZES = {"small": 10, "medium": 10 << 10, "large": 1 << 20}  # bytes of a buffer
BUFFERS = 10  # in one payload
SKEW = {"large": 6, "medium": 3, "small": 1}  # 60, 30 and 10 %
SEED = 1804_01138  # any would do; kept, so that runs can be compared


class Payload(NamedTuple):
    scheme: str  # "uniform", "random", "skewed"
    buffers: str  # "small", "medium", "large"; "mixed": of all three sizes
    sizes: tuple[int, ...]  # bytes of each buffer, in order

    @property
    def name(self) -> str:
        """ "uniform.small"; without the sizes where there is but one kind: "random"."""
        return f"{self.scheme}.{self.buffers}" if self.scheme == "uniform" else self.scheme

    @property
    def message_bytes(self) -> int:
        return sum(self.sizes)


def uniform(*kinds: str) -> Payload:
    """The buffers shared evenly among these kinds, in turn."""
    sizes = tuple(SIZES[kinds[at % len(kinds)]] for at in range(BUFFERS))
    return Payload("uniform", kinds[0] if len(kinds) == 1 else "mixed", sizes)


def drawn() -> Payload:
    """Each buffer of a kind drawn at random."""
    chance = random.Random(SEED)
    return Payload("random", "mixed", tuple(chance.choice(list(SIZES.values())) for _ in range(BUFFERS)))


def skewed() -> Payload:
    """Most buffers large, as in the traffic of a training."""
    sizes = [SIZES[kind] for kind, count in SKEW.items() for _ in range(count)]
    return Payload("skewed", "mixed", tuple(sizes))


SMALL, MEDIUM, LARGE = uniform("small"), uniform("medium"), uniform("large")
MIXED, RANDOM, SKEWED = uniform("small", "medium", "large"), drawn(), skewed()
ALL = (SMALL, MEDIUM, LARGE, MIXED, RANDOM, SKEWED)
