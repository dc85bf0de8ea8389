"""Sends steps that differ in numbers only: what is the same in their packets is packed once.

Short steps are sent together, some 25 ms after the first of them ended: packing and sending a step amidst a
training takes many times as long as it does while code and data for it lie in the caches.
"""

from __future__ import annotations

import struct
from itertools import groupby
from typing import Callable, Dict, List, Optional, Sequence, Union

from ._packets import ABSENT, MARK, SPANS
from ._sender import Sender

MOST_HELD = 64

Layout = Callable[[int, Optional[int], Sequence[int]], bool]
Piece = Union[bytes, str]

_MARK_HEAD = 16  # bytes of a mark before its step
_NUMBER = struct.Struct("<q")


def layout(
    sender: Sender,
    kinds: Sequence[int],
    names: Sequence[str],
    places: Sequence[int],
    like: int = 0,
    counts: Sequence[int] = (),
) -> Layout:
    """send(step, examples, times) for steps that differ in numbers only. It returns False when it takes
    nothing; the step must be sent in another way then. times: also last, when the step ended.

    kinds: of the marks, in order. names: of the spans, without bytes. places: where in `times` stand the time
    of each mark, then begin and end of each span. counts: where there stand the counts of the last spans; the
    others are of one thing. What is the same is packed once, and what differs by a function made for it: a
    loop over the values would take longer than sending them.
    """
    marks, spans = len(kinds), len(names)
    pieces: List[Piece] = []  # bytes that are always the same, and between them what differs
    for kind, place in zip(kinds, places):  # noqa: B905 - Python 3.8
        head = MARK.pack(b"M", kind, 0, 0, 0, like, 0, -1, 0, 0, 0)[:_MARK_HEAD]
        pieces += [head, "step", "examples", "times[%d]" % place]
    if names:
        numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
        text = "\0".join(numbers).encode()
        pieces.append(SPANS.pack(b"S", len(text), spans) + text)
    for at, name in enumerate(names):
        begin, end = places[marks + 2 * at : marks + 2 * at + 2]
        pieces += [_NUMBER.pack(numbers[name]), "times[%d]" % begin, "times[%d]" % end, _NUMBER.pack(ABSENT)]
        counted = at - (spans - len(counts))
        pieces.append("times[%d]" % counts[counted] if counted >= 0 else _NUMBER.pack(1))
    pack = _packer(pieces)

    def send(step: int, examples: Optional[int], times: Sequence[int]) -> bool:
        if sender._socket is None or sender.dropped or sender.dropped_spans != sender._reported_spans:
            return False  # there is no agent, or drops have to be reported
        held = sender.held
        held.append((pack, step, ABSENT if examples is None else examples, tuple(times), marks, spans))
        if times[-1] - sender.sent_ns >= sender.hold_ns or len(held) >= MOST_HELD:
            sender.sent_ns = times[-1]
            sender.send_held()
        return True

    return send


def _packer(pieces: Sequence[Piece]) -> Callable[[int, int, Sequence[int]], bytes]:
    """pack(step, examples, times): the pieces behind one another, those in words as numbers of 8 bytes."""
    form, values = "<", []  # type: str, List[str]
    known: Dict[str, bytes] = {}
    for constant, group in groupby(pieces, key=lambda piece: isinstance(piece, bytes)):
        if constant:
            part = b"".join(group)  # type: ignore[arg-type]
            name = "constant%d" % len(known)
            form, known[name] = form + "%ds" % len(part), part
            values.append(name)
        else:
            words = list(group)
            form += "%dq" % len(words)
            values += words  # type: ignore[arg-type]
    # Only words of ours are put into this text. It is of this file, which torch.compile leaves alone.
    source = "lambda step, examples, times: pack(%s)" % ", ".join(values)
    made: Callable[[int, int, Sequence[int]], bytes] = eval(
        compile(source, __file__, "eval"), {"pack": struct.Struct(form).pack, **known}
    )
    return made
