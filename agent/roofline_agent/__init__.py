"""The daemon on every node: finds the ranks of a job, samples them, takes their marks, streams both."""

__version__ = "0.1.0"
