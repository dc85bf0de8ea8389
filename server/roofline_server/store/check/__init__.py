"""Checks a data directory while no server works with it, and repairs it."""
