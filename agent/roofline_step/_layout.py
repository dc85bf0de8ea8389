"""Sends steps that differ in numbers only: what is the same in their packets is packed once.

Short steps are sent together, some 25 ms after the first of them ended: packing and sending a step amidst a
training takes many times as long as it does while code and data for it lie in the caches.
"""

from __future__ import annotations

import struct
from typing import Callable, List, Optional, Sequence

from ._packets import ABSENT, MARK, SPANS
from ._sender import Sender

MOST_HELD = 64

Layout = Callable[[int, Optional[int], Sequence[int]], bool]

_MARK_HEAD = 16  # bytes of a mark before its step


def layout(
    sender: Sender, kinds: Sequence[int], names: Sequence[str], places: Sequence[int], like: int = 0
) -> Layout:
    """send(step, examples, times) for steps that differ in numbers only. It returns False when it takes
    nothing; the step must be sent in another way then. times: also last, when the step ended.

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
        if sender._socket is None or sender.dropped or sender.dropped_spans != sender._reported_spans:
            return False  # there is no agent, or drops have to be reported
        held = sender.held
        held.append((pack, step, ABSENT if examples is None else examples, tuple(times), marks, spans))
        if times[-1] - sender.sent_ns >= sender.hold_ns or len(held) >= MOST_HELD:
            sender.sent_ns = times[-1]
            sender.send_held()
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
