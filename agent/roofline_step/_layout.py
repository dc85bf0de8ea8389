"""Says steps that are alike: what is the same in their packets is packed once."""

from __future__ import annotations

import struct
from typing import Callable, List, Optional, Sequence

from ._sender import ABSENT, HEADER, SPANS, Sender

Layout = Callable[[int, Optional[int], Sequence[int]], bool]


def layout(sender: Sender, kinds: Sequence[int], names: Sequence[str], places: Sequence[int]) -> Layout:
    """say(step, examples, times) for steps that are alike: the same marks and spans, with other numbers. It
    returns False when nothing was said, and it must be said in another way.

    kinds: of the marks, in order. names: of the spans, each of one thing without bytes. places: where in
    `times` stand the time of each mark, then begin and end of each span. What is the same is packed once, and
    what differs by a function made for it: a loop over the values would take longer than to send them.
    """
    marks, spans = len(kinds), len(names)
    same = [HEADER.pack(b"M", kind, 0, 0, 0, 0, -1, 0, 0, 0)[:_MARK_HEAD] for kind in kinds]
    packed = _packer(marks, same + _around_spans(names), [int(place) for place in places])

    def say(step: int, examples: Optional[int], times: Sequence[int]) -> bool:
        connection = sender._socket
        if connection is None or sender.dropped or sender.dropped_spans != sender._told_spans:
            return False  # there is nobody, or a loss to tell
        try:
            packet = packed(step, ABSENT if examples is None else examples, times)
        except Exception:
            return False
        try:
            connection.send(packet)
        except Exception:
            sender._put(packet, marks, spans)  # knows what to make of it
        return True

    return say


_MARK_HEAD = 16  # bytes of a mark before its step


def _around_spans(names: Sequence[str]) -> List[bytes]:
    """What stands before the times of the first span, between those of two, and behind the last."""
    if not names:
        return []
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    text = "\0".join(numbers).encode()
    tail = struct.pack("<2q", ABSENT, 1)
    heads = [struct.pack("<q", numbers[name]) for name in names]
    first = SPANS.pack(b"S", len(text), len(names)) + text + heads[0]
    return [first, *(tail + head for head in heads[1:]), tail]


def _packer(
    marks: int, same: Sequence[bytes], places: Sequence[int]
) -> Callable[[int, int, Sequence[int]], bytes]:
    """packed(step, examples, times): a packet of so many marks, and spans with `same` around them."""
    spans = "qq".join("%ds" % len(part) for part in same[marks:])
    form = struct.Struct("<" + ("%dsqqq" % _MARK_HEAD) * marks + spans)
    times = ["times[%d]" % place for place in places]
    values: List[str] = []
    for at in range(len(same)):
        values.append("same%d" % at)
        values += (
            ("step", "examples", times[at]) if at < marks else times[2 * at - marks : 2 * at - marks + 2]
        )
    # Numbers of ours are all that is put into this text.
    made = "lambda step, examples, times: pack(%s)" % ", ".join(values)
    known = {"same%d" % at: part for at, part in enumerate(same)}
    packed: Callable[[int, int, Sequence[int]], bytes] = eval(made, {"pack": form.pack, **known})
    return packed
