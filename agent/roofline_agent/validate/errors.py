"""What can go wrong while this node's counters are compared with the truth.

ValidationError    the message says what happened, why, and what to do next
"""

from __future__ import annotations

from ..errors import AgentError


class ValidationError(AgentError):
    """Nothing could be checked, or the result cannot be kept or read."""
