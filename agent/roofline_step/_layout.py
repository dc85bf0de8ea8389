"""Sends steps that differ in numbers only: what is the same in their packets is packed once."""

from __future__ import annotations

import struct
from typing import Callable, List, Optional, Sequence

from ._packets import ABSENT, MARK, SPANS
from ._sender import Sender

Layout = Callable[[int, Optional[int], Sequence[int]], bool]

_MARK_HEAD = 16  # bytes of a mark before its step


def layout(
    sender: Sender, kinds: Sequence[int], names: Sequence[str], places: Sequence[int], like: int = 0
) -> Layout:
    """send(step, examples, times) for steps that differ in numbers only. It returns False when it sent
    nothing; the step must be sent in another way then.

    kinds: of the marks, in order. names: of the spans, each of one thing without bytes. places: where in
    `times` stand the time of each mark, then begin and end of each span. What is the same is packed once, and
    what differs by a function made for it: a loop over the values would take longer than sending them.
    """
    marks, spans = len(kinds), len(names)
    constant = [MARK.pack(b"M", kind, 0, 0, 0, like, 0, -1, 0, 0, 0)[:_MARK_HEAD] for kind in kinds]
    if names:
        # What stands before the times of the first span, between those of two spans, and after the last.
        numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
        text = "\0".join(numbers).encode()
        tail = struct.pack("<2q", ABSENT, 1)
        heads = [struct.pack("<q", numbers[name]) for name in names]
        constant.append(SPANS.pack(b"S", len(text), len(names)) + text + heads[0])
        constant += [tail + head for head in heads[1:]]
        constant.append(tail)
    pack = _packer(marks, constant, [int(place) for place in places])

    def send(step: int, examples: Optional[int], times: Sequence[int]) -> bool:
        connection = sender._socket
        if connection is None or sender.dropped or sender.dropped_spans != sender._reported_spans:
            return False  # there is no agent, or drops have to be reported
        try:
            packet = pack(step, ABSENT if examples is None else examples, times)
        except Exception:
            return False
        try:
            connection.send(packet)
        except Exception:
            sender._put(packet, marks, spans)  # tries again, and counts what is lost
        return True

    return send


def _packer(
    marks: int, constant: Sequence[bytes], places: Sequence[int]
) -> Callable[[int, int, Sequence[int]], bytes]:
    """pack(step, examples, times): a packet of so many marks, then spans; `constant`: the bytes before the
    numbers of each mark, and around those of the spans."""
    spans = "qq".join("%ds" % len(part) for part in constant[marks:])
    form = struct.Struct("<" + ("%dsqqq" % _MARK_HEAD) * marks + spans)
    times = ["times[%d]" % place for place in places]
    values: List[str] = []
    for at in range(len(constant)):
        values.append("constant%d" % at)
        if at < marks:
            values += ("step", "examples", times[at])
        else:
            values += times[2 * at - marks : 2 * at - marks + 2]  # begin and end; nothing after the last span
    # Only numbers of ours are put into this text. It is of this file, which torch.compile leaves alone.
    source = "lambda step, examples, times: pack(%s)" % ", ".join(values)
    known = {"constant%d" % at: part for at, part in enumerate(constant)}
    made: Callable[[int, int, Sequence[int]], bytes] = eval(
        compile(source, __file__, "eval"), {"pack": form.pack, **known}
    )
    return made
