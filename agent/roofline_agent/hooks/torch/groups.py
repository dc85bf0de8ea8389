"""PyTorch: how many ranks a collective has where not all take part, and how many of them are on this node."""

from __future__ import annotations

import inspect
import os
import weakref
from typing import Any, MutableMapping, Optional

from ..signals import raise_again


class Groups:
    """Process groups of torch.distributed, each looked up once."""

    def __init__(self, module: Any) -> None:
        """module: torch.distributed.distributed_c10d."""
        self._module = module
        self._known: MutableMapping[Any, str] = weakref.WeakKeyDictionary()

    def suffix(self, group: Any) -> str:
        """The end of a collective's name: ".16-2" for 16 ranks with 2 of them on this node, ".16" where that
        is unknown; "" for all ranks, or where the group cannot be read."""
        if group is None:
            return ""
        try:
            found = self._known.get(group)
            if found is None:
                found = self._known[group] = self._look_up(group)
            return found
        except Exception:
            raise_again()
            return ""  # it counts as one of all ranks

    def _look_up(self, group: Any) -> str:
        module = self._module
        size = module.get_world_size(group)
        if size < 1 or size >= module.get_world_size():
            return ""
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or 0)
        ranks = getattr(module, "get_process_group_ranks", None)  # torch 2.0
        if local < 1 or ranks is None:
            return ".%d" % size
        # torchrun numbers the ranks of one node one after another, as many on each.
        own = module.get_rank() // local
        return ".%d-%d" % (size, sum(rank // local == own for rank in ranks(group)))


def position_of_group(function: Any) -> Optional[int]:
    """Position of a function's argument `group`; None: it has none, or that cannot be found out."""
    try:
        return list(inspect.signature(function).parameters).index("group")
    except (TypeError, ValueError):
        return None
