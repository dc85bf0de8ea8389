"""Text of many rows at once: columns of numbers and names become columns of bytes, put side by side.

A *block* is the text of one column, (rows, width) of bytes; what of a row is shorter is 0 there, which no
text has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.uint8]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GROUP = 1000  # digits are looked up three at a time
_THREE = np.array([list(f"{number:03d}".encode()) for number in range(GROUP)], np.uint8)


def same(text: str, count: int) -> Block:
    """The same ASCII text in all rows."""
    return np.broadcast_to(np.frombuffer(text.encode("ascii"), np.uint8), (count, len(text)))


def texts(values: Iterable[str]) -> Block:
    """ASCII texts, one a row."""
    column = np.array(list(map(str.encode, values)), np.bytes_)
    return column.view(np.uint8).reshape(len(column), -1)


def names(values: Sequence[str], which: Ints) -> Block:
    """One of a few ASCII texts for each row."""
    return texts(values)[which]


def whole(values: Ints) -> Block:
    """Whole numbers in digits."""
    return np.concatenate([_signs(values), _digits(_amounts(values))], axis=1)


def microseconds(nanoseconds: Ints) -> Block:
    """Times, exact, with the nanoseconds behind the point."""
    above, below = np.divmod(_amounts(nanoseconds), GROUP)
    point = same(".", len(nanoseconds))
    return np.concatenate([_signs(nanoseconds), _digits(above), point, _THREE[below]], axis=1)


def beside(blocks: Sequence[Block]) -> Block:
    """The blocks from left to right."""
    return np.concatenate(blocks, axis=1)


def where(there: Bools, block: Block) -> Block:
    """The block in some rows, nothing in the others."""
    return block if there.all() else block * there[:, None]


def text_of(block: Block) -> str:
    """All rows, one behind the other."""
    return block.tobytes().translate(None, b"\0").decode("ascii")


def members(columns: Sequence[tuple[str, Block, Bools]]) -> Block:
    """JSON objects with a member for each column where it is there: key in JSON, values, where they are.
    Nothing in rows that have none. There is a column at least."""
    count = len(columns[0][1])
    blocks: list[Block] = []
    some = np.zeros(count, np.bool_)
    for key, values, there in columns:
        blocks += [where(there & some, same(",", count)), where(there, same(f"{key}:", count))]
        blocks.append(where(there, values))
        some = some | there
    return beside([where(some, same("{", count)), *blocks, where(some, same("}", count))])


def _amounts(values: Ints) -> NDArray[np.uint64]:
    """Without signs; that of -2^63 is no int64."""
    return np.abs(values).view(np.uint64)


def _digits(amounts: NDArray[np.uint64]) -> Block:
    groups: list[Block] = []
    while not groups or amounts.any():
        amounts, last = np.divmod(amounts, GROUP)
        groups.insert(0, _THREE[last])
    found = np.concatenate(groups, axis=1)
    shown = np.logical_or.accumulate(found != ord("0"), axis=1)
    shown[:, -1] = True
    return found * shown


def _signs(values: Ints) -> Block:
    negative = values < 0
    return where(negative, same("-", len(values))) if negative.any() else np.zeros((len(values), 0), np.uint8)
