"""Where an agent's socket may be, and which of them a process may write to."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional

from ._signals import raise_again

SYSTEM_SOCKET = "/run/roofline/agent.sock"


def socket_paths(environ: Mapping[str, str] = os.environ, uid: Optional[int] = None) -> List[str]:
    """Where an agent may listen, first choice first.

    ROOFLINE_SOCKET overrides all. An agent of the same user comes before the system's; it may have been
    started with XDG_RUNTIME_DIR, as in a login, where this process has none, as of cron, or the other way
    round.
    """
    if environ.get("ROOFLINE_SOCKET"):
        return [environ["ROOFLINE_SOCKET"]]
    uid = os.getuid() if uid is None else uid
    of_login = "/run/user/%d" % uid
    runtime = dict.fromkeys([environ.get("XDG_RUNTIME_DIR") or of_login, of_login])
    folders = [os.path.join(folder, "roofline") for folder in runtime] + ["/tmp/roofline-%d" % uid]
    return [os.path.join(folder, "agent.sock") for folder in folders] + [SYSTEM_SOCKET]


def trusted(path: str, uid: int) -> bool:
    """Whether the socket at `path` belongs to this user, to root or to the system's agent, which may have a
    user of its own: others may not read our marks."""
    try:
        # Nobody but root can make anything in /run, so who has the place there was given it.
        return os.stat(path).st_uid in (0, uid) or path == SYSTEM_SOCKET
    except OSError:
        raise_again()
        return False
