"""The head node: takes every agent's stream, keeps it durably, cuts counters at step borders, answers."""

__version__ = "0.1.0"
