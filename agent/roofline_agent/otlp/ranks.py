"""Hands spans to the receiver of marks as the steps of the processes that sent them."""

from __future__ import annotations

import json
import logging

from roofline_step.packets import VARIABLES, pack_fact

from ..marks.listener import PeerProcess
from ..marks.receiver import MarkReceiver
from .receiver import OtlpReceiver, SentSpans
from .steps import Sender, SpanSteps

log = logging.getLogger(__name__)

MOST_PROCESSES = 4096
IMPOSSIBLE = "a span of OTLP with a step or times out of range"


class OtlpRanks:
    """The processes of the node that send spans."""

    def __init__(self, spans: OtlpReceiver, marks: MarkReceiver) -> None:
        self._spans, self._marks = spans, marks
        self._of: dict[PeerProcess, SpanSteps] = {}

    def receive(self) -> None:
        """Take what has come."""
        for one in self._spans.take():
            self._receive(one)

    def _receive(self, one: SentSpans) -> None:
        peer, sender = one.peer, one.sender
        if one.impossible:
            self._marks.refuse(IMPOSSIBLE, count=one.impossible)
        if peer not in self._of:
            while len(self._of) >= MOST_PROCESSES:
                del self._of[next(iter(self._of))]
            self._of[peer] = SpanSteps()
            if not self._marks.knows(peer.pid) and (said := _variables(sender)):
                self._marks.take_in(peer, [pack_fact(VARIABLES, json.dumps(said))])
            if self._marks.marks_itself(peer.pid):
                self._marks.take_in(peer, [pack_fact("otlp", "left out: hooks mark the steps")])
        # Steps by hooks come sooner and have more phases; one step must not be two.
        if self._marks.marks_itself(peer.pid):
            return
        packets = self._of[peer].packets(one.spans, sender.examples)
        if packets:
            self._marks.take_in(peer, packets)

    def close(self) -> None:
        self._spans.close()


def _variables(sender: Sender) -> dict[str, str]:
    """As a launcher would have set them; none where it is not said which rank it is."""
    if sender.rank is None or sender.world is None:
        return {}
    of_run = {"MASTER_ADDR": sender.run or "run", "MASTER_PORT": "otlp"}
    return {"RANK": str(sender.rank), "WORLD_SIZE": str(sender.world), **of_run}
