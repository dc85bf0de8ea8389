"""Colours, markers and sizes: a role has one colour and one marker in every kind of plot, a phase one colour.
Roles that users name differ within a picture. If the colours of two names collide, the alphabetically later
one gets its next choice, so that all pictures of the same roles, also those of the live page, agree.

Colour-blind readers can distinguish them: roles have the colours of Okabe and Ito, parts some close to Tol's
"light" ones, which no role has. Neighbouring parts also differ in brightness, so that they are distinct when
printed in grey. Roles then still have their markers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

ROLES = {
    "worker": ("#0072B2", "o"),
    "ps": ("#D55E00", "^"),
    "chief": ("#009E73", "v"),
    "horovod": ("#CC79A7", "s"),
    "ddp": ("#E69F00", "D"),
    "evaluator": ("#56B4E9", "P"),
}
NO_ROLE = ("#4D4D4D", "X")
# Roles that users name.
MORE_COLOURS = ("#332288", "#117733", "#661100", "#7A4FBF", "#B5651D", "#4D4D4D")
MORE_MARKERS = (">", "p", "*", "<", "h", "X")
LEVEL_MARKERS = {
    "l1": "o",
    "l2": "s",
    "l3": "D",
    "dram": "^",
    "hbm": "^",
    "network": "P",
    "minimum": "v",
}
PARTS = {
    "input": "#AA9944",
    "forward": "#99DDFF",
    "backward": "#6688BB",
    "compute": "#6688BB",
    "communicate": "#EE8899",
    "wait": "#BB5566",
    "optimizer": "#BBCC33",
    "overhead": "#AAAA00",
    "other": "#DDDDDD",
    "l1": "#DDEEDD",
    "l2": "#B5D8B5",
    "l3": "#7FB98A",
    "dram": "#44AA99",
    "hbm": "#44AA99",
    "minimum": "#DDDDDD",
    "network": "#882255",
    "network sent": "#882255",
    "network received": "#AA4499",
    # Of traced steps what is no layer of the model.
    "(SendTensor)": "#882255",
    "(RecvTensor)": "#AA4499",
    "(updates on servers)": "#BB5566",
    "(collective)": "#EE8899",
    "(input)": "#AA9944",
    "(gradients)": "#6688BB",
    "(optimizer)": "#BBCC33",
    "(no layer)": "#BBBBBB",
    "(nothing ran)": "#EFE4CE",
    # Of the layers of the software.
    "launcher": "#AA9944",
    "framework": "#9DB7DD",
    "communication": "#EE8899",
    "framework or communication": "#BB99BB",
    "rest": "#EEEEEE",
}
# Parts of an account: what computes is blue, what waits is pale, and what should not be there is strong.
ACCOUNT = {
    "input": "#CC8800",
    "compute": "#6688BB",
    "host": "#9DB7DD",
    "gc": "#8866AA",
    "contention": "#CC3311",
    "stopped": "#882255",
    "throttled": "#AA4499",
    "paging": "#EE7733",
    "disk": "#996633",
    "transfer": "#77BBAA",
    "wait_ranks": "#DDDDCC",
    "wait_ps": "#EEDD88",
    "blocked": "#EE3377",
    "other": "#EEEEEE",
}
MORE_PARTS = (
    "#77AADD", "#EEDD88", "#44BB99", "#FFAABB", "#BBCC33", "#99DDFF", "#EE8866", "#AAAA00",
)  # fmt: skip
SHADES = ("#DCE6F2", "#B3CDE3", "#8CAFD2", "#6489B8", "#42659A", "#2A4478")  # from narrow to wide

INK, DIM, FAINT, GRID = "#000000", "#5A5A5A", "#8C8C8C", "#E3E3E3"
TITLE, LABEL, TICK, SMALL, CAPTION = 10.0, 8.5, 8.0, 7.0, 6.8  # sizes of text, points
MARKER = 7.5  # size of a marker, points

# Text stays text in the file, so that publishers can embed fonts and readers can search.
SETTINGS: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "roofline",
    "text.usetex": False,
    "font.family": ["DejaVu Sans"],
    "hatch.linewidth": 0.5,
}


Look = tuple[str, str]  # colour and marker
P = ParamSpec("P")
Made = TypeVar("Made")
# The looks of the roles that users name, in the picture that is being made.
_OWN_LOOKS: ContextVar[dict[str, Look] | None] = ContextVar("looks of roles", default=None)


@contextmanager
def picture(roles: Iterable[str] = ()) -> Iterator[None]:
    """Roles of pictures that are made in the block differ in their looks, those that users name too. roles:
    that will be in them, as far as that is known."""
    before = _OWN_LOOKS.set({})
    try:
        reserve(roles)
        yield
    finally:
        _OWN_LOOKS.reset(before)


def reserve(roles: Iterable[str]) -> None:
    """Give these roles their looks in the picture that is being made, whichever is drawn first."""
    for role in sorted(set(roles)):
        _look(role)


def one_picture(draw: Callable[P, Made]) -> Callable[P, Made]:
    """What this function draws of its arguments is one `picture`."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Made:
        with picture(roles_in(args)):
            return draw(*args, **kwargs)

    return drawn


def roles_in(record: Any) -> set[str]:
    """Of all records in an answer. What can be read only once is not looked into."""
    if not isinstance(record, (tuple, list)):
        return set()
    role = getattr(record, "role", None)
    found = {role} if isinstance(role, str) else set()
    return found.union(*map(roles_in, record))


def colour(role: str) -> str:
    return _look(role)[0]


def marker(role: str) -> str:
    return _look(role)[1]


def _look(role: str) -> Look:
    if role in ROLES or not role:
        return ROLES.get(role, NO_ROLE)
    looks = _OWN_LOOKS.get()
    if looks is None:
        return next(_looks_for(role))
    if role not in looks:
        free = (look for look in _looks_for(role) if look not in looks.values())
        looks[role] = next(free, NO_ROLE)
    return looks[role]


def _looks_for(role: str) -> Iterator[Look]:
    """First the look that the name of the role gives, so that it is mostly the same in every picture."""
    count = len(MORE_COLOURS)
    first = zlib.crc32(role.encode())
    for shift in range(count):
        for at in range(first, first + count):
            yield MORE_COLOURS[at % count], MORE_MARKERS[(at + shift) % count]


def part_colour(part: str, at: int) -> str:
    """The colour of a part. at: its position among all parts, which decides if the part is unknown."""
    return PARTS.get(part, MORE_PARTS[at % len(MORE_PARTS)])


def level_marker(level: str) -> str:
    return LEVEL_MARKERS.get(level, NO_ROLE[1])


def shade(at: int, count: int) -> str:
    """The colour of step `at` of `count`, from light to dark."""
    return SHADES[round(at * (len(SHADES) - 1) / max(1, count - 1))] if count > 1 else SHADES[3]


def ink_on(colour: str) -> str:
    """Black or white, whichever is more readable on a colour."""
    return "black" if brightness(colour) > 0.5 else "white"


def brightness(colour: str) -> float:
    """Brightness of a colour on grey paper, 0 to 1 (luma of ITU-R BT.709)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def account_colour(part: str) -> str:
    """The colour of a part of an account; of one that cannot be told apart that of its first name."""
    return ACCOUNT.get(part.partition("|")[0], ACCOUNT["other"])
