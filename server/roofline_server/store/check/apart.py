"""Takes in again the batches of nodes that the catalog did not know, because it was damaged or lost.

They are sound, except for the number of their node, which in the present catalog belongs to no node or to
another one. A batch says which agent and which boot it comes from; that node must be known again, which it is
once its agent has connected, or once its jobs have been taken in.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import BadBatch
from ...records import NodeKey
from ..catalog.catalog import Catalog
from ..catalog.clocks import ClockRegistry, moment
from ..catalog.name_ids import NameIds
from ..intake.entries import Entry
from ..intake.inbox import Inbox
from .findings import Repaired

# By how much a batch may have come after its end, and before it as far as is known, for a clock to be that of
# its node: earlier agents do not say of which boot their batches are.
LATEST_NS, EARLIEST_NS = 600_000_000_000, 10_000_000_000


# The boot that a batch is of, "" where it does not say so, and the node time of its end. Raises BadBatch.
Origin = Callable[[bytes], tuple[str, int]]


def take_again(catalog: Catalog, inbox: Inbox, origin_of: Origin, found: Repaired) -> None:
    """Puts those whose node is known back into the inbox: the next start reads them."""
    name_ids = NameIds(catalog)
    clocks = ClockRegistry(catalog, name_ids)
    known = name_ids.nodes()
    taken: list[Entry] = []
    for entry in inbox.sound_apart():
        node, why = _node(entry, origin_of, known, clocks)
        if node is None:
            found.left.append(
                f"batch {entry.sequence} of agent {entry.agent[:8]} stays apart in inbox.db, not read: {why}"
            )
        else:
            taken.append(entry._replace(node=node))
    if taken:
        inbox.put_back(taken)
        agents = ", ".join(sorted({entry.agent[:8] for entry in taken}))
        found.done.append(
            f"{len(taken)} batches that were set apart are in the inbox again (of agents {agents}): the next "
            "start of the server reads them"
        )


def _node(
    entry: Entry, origin_of: Origin, known: dict[NodeKey, int], clocks: ClockRegistry
) -> tuple[int | None, str]:
    """The node's number now, or why it is not known."""
    try:
        boot, end_ns = origin_of(entry.data)
    except BadBatch as error:
        return None, str(error)
    mine = {key: node for key, node in known.items() if key.agent == entry.agent}
    if not mine:
        return (
            None,
            "the catalog does not know its agent: start the server, have it connect, and repair again",
        )
    if boot:
        node = mine.get(NodeKey(entry.agent, boot))
        if node is None:
            why = "its node has been started anew since, and the catalog knows nothing of the time before"
            return None, f"{why}: put back a catalog of then"
        return node, ""
    near = [node for node in mine.values() if _came_soon(entry, end_ns, node, clocks)]
    if len(near) != 1:
        return (
            None,
            "it does not say of which boot of its node it is, and the clocks that are known do not tell",
        )
    return near[0], ""


def _came_soon(entry: Entry, end_ns: int, node: int, clocks: ClockRegistry) -> bool:
    if not clocks.knows(node):
        return False
    return -EARLIEST_NS <= entry.received_ns - moment(clocks.clock(node), end_ns) <= LATEST_NS
