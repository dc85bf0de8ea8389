"""Horovod's timeline: what its events mean, and the file read while Horovod still writes it."""
