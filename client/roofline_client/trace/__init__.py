"""A timeline in the trace format that Perfetto and Chrome read."""

from .writing import LANES, Written, write_trace

__all__ = ["LANES", "Written", "write_trace"]
