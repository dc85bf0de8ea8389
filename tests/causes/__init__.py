"""A benchmark of causes: real trainings with something planted, healthy ones, and what reports say of them.

`make causes` runs what has no result yet; docs/accuracy.md has the tables and says how to read them.
"""
