"""TensorFlow parameter servers: the bytes of the variables on each, which are the payload of a step.

Size classes as in Lu et al. 2018 (TF-gRPC-Bench): small under 1 KiB, medium under 1 MiB, large from there.
The chief creates the variables and reports, for every parameter server, facts `payload.ps:0.small` =
"COUNT/BYTES", `.medium`, `.large` and `.total` of its trainable variables, and `gradient.bytes` and
`gradient.tensors` of all together. A worker pulls and pushes that much in a step, unless its gradients are
sparse. Where one optimizer of a known rule updates them (update_rules.py), `update.ps:0` =
"FLOPS/BYTES/PRECISION RULE" is what the server does for one update of all it holds.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import Marker
from .update_rules import Rule, rule_of
from .updates import counters

CLASSES = (("small", 1 << 10), ("medium", 1 << 20), ("large", 1 << 63))
_TASK = re.compile(r"/job:ps/.*task:(\d+)")


class Placed(NamedTuple):
    """A trainable variable, or a shard of one, on a parameter server."""

    variable: Any  # weakly
    server: int
    size: int
    elements: int


class _Placements:
    """Variables of this process, and what was reported of them."""

    def __init__(self) -> None:
        self.servers = 0
        self.placed: List[Placed] = []
        self.changed = False
        self.reported: Dict[str, str] = {}


_placements = _Placements()


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.distribute.parameter_server_strategy_v2."""
    extended = module.ParameterServerStrategyV2Extended
    create = extended._create_variable

    def _create_variable(self: Any, *args: Any, **kwargs: Any) -> Any:
        variable = create(self, *args, **kwargs)
        try:
            _placements.servers = max(_placements.servers, int(getattr(self, "_num_ps", 0)))
            for shard in getattr(variable, "variables", None) or [variable]:
                found = _TASK.search(shard.device or "")
                # Counters are "trainable" too unless created otherwise; an integer has no gradient.
                if found and shard.trainable and not getattr(shard.dtype, "is_integer", False):
                    elements = int(shard.shape.num_elements())
                    size = elements * int(shard.dtype.size)
                    _placements.placed.append(Placed(weakref.ref(shard), int(found.group(1)), size, elements))
                    _placements.changed = True
        except Exception:
            marker.failed("tf_payload")
        return variable

    extended._create_variable = _create_variable


def report(marker: Marker) -> None:
    """Report what changed since the last time; cheap when nothing did."""
    if not _placements.changed:
        return
    _placements.changed = False
    _placements.placed = [one for one in _placements.placed if one.variable() is not None]
    optimizers = [one.optimizer() for one in counters.alive()]
    rule = rule_of(optimizers[0]) if len(optimizers) == 1 else None
    found = facts([(one.server, one.size) for one in _placements.placed], _placements.servers)
    for name, value in found + updates(_placements.placed, rule):
        if _placements.reported.get(name) != value:
            _placements.reported[name] = value
            marker.fact(name, value)


def facts(sizes: List[Tuple[int, int]], servers: int) -> List[Tuple[str, str]]:
    """(name, value) of all facts, from (server, bytes) of every variable; a server may have none."""
    found = []
    for server in range(max([servers] + [number + 1 for number, _ in sizes])):
        own = [size for number, size in sizes if number == server]
        parts = []
        least = 0
        for name, limit in CLASSES:
            parts.append((name, [size for size in own if least <= size < limit]))
            least = limit
        parts.append(("total", own))
        for name, part in parts:
            found.append(("payload.ps:%d.%s" % (server, name), "%d/%d" % (len(part), sum(part))))
    total = sum(size for _, size in sizes)
    return [*found, ("gradient.bytes", str(total)), ("gradient.tensors", str(len(sizes)))]


def updates(placed: List[Placed], rule: Optional[Rule]) -> List[Tuple[str, str]]:
    """(name, value) of what each server does for an update of all it holds; nothing without a rule."""
    if rule is None:
        return []
    found = []
    for server in sorted({one.server for one in placed}):
        own = [one for one in placed if one.server == server]
        elements, size = sum(one.elements for one in own), sum(one.size for one in own)
        amounts = rule.flops * elements, rule.bytes_of(size), 8 * size // max(1, elements)
        found.append(("update.ps:%d" % server, "%d/%d/f%d " % amounts + rule.name))
    return found
