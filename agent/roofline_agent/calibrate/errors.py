"""What can go wrong while this node's ceilings are measured, kept or read back.

CalibrationError    the message says what happened, why, and what to do next
"""

from __future__ import annotations

from ..errors import AgentError


class CalibrationError(AgentError):
    """The ceilings could not be measured or read. No ceiling is made up in their place."""
