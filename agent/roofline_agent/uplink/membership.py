"""What this agent is let in with: where that is a certificate, a newer one in time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from roofline.joining import Access, CannotJoin, renewed

from ..errors import AgentError

log = logging.getLogger(__name__)

AGAIN_S = 3600.0  # after a try that failed


class Membership:
    """What one server lets this agent in with."""

    def __init__(
        self,
        grpc: Any,
        server: str,
        access: Access | None,
        keep: Callable[[Access], None] = lambda access: None,
        load: Callable[[], Access | None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """keep: called with each newer one; may raise CannotJoin. load: what is kept; may raise AgentError.
        clock: UNIX time, s."""
        self.access = access
        self._grpc, self._server, self._keep, self._clock = grpc, server, keep, clock
        self._load = load
        self._tried = -AGAIN_S

    def look_again(self) -> None:
        """Take what is kept now: somebody may have joined again, as after its token was revoked."""
        try:
            self.access = self._load() or self.access
        except AgentError as error:
            log.error("%s", error)

    def renew_if_due(self) -> threading.Thread | None:
        """Have a thread exchange the certificate where that is due; what is open goes on with the old one."""
        now = self._clock()
        if self.access is None or not self.access.is_due(now):
            return None
        if 0 <= now - self._tried < AGAIN_S:  # the clock may have been set back
            return None
        self._tried = now
        thread = threading.Thread(target=self._renew, args=(self.access,), name="renew", daemon=True)
        thread.start()
        return thread

    def _renew(self, access: Access) -> None:
        try:
            newer = renewed(self._grpc, self._server, access)
            self._keep(newer)  # first: a full disk is tried again, as the old one is still due
            self.access = newer
            log.info("the certificate was exchanged for a new one")
        except CannotJoin as error:
            log.error("the certificate could not be exchanged: %s", error)
