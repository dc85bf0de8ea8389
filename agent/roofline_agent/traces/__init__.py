"""Traces of a rank's steps by its framework's profiler: who orders them, and what they recorded, which a
process of its own reads."""
