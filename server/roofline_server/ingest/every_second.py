"""A look at the server's load once a second, and by how much the event loop was late for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_S = 1.0


async def every_second(look: Callable[[float], None], clock: Callable[[], float]) -> None:
    """For ever: look(lag_s). clock: s."""
    while True:
        began = clock()
        await asyncio.sleep(LOOK_S)
        look(max(0.0, clock() - began - LOOK_S))
