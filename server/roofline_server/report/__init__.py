"""Puts a job's step deltas, events and machines together into one report."""
