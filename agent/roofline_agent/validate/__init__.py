"""Compares what the sources of this node count with work of a known amount.

A process of its own works (`child/`, by the list in `works.py`), the sources are sampled meanwhile as the
agent samples them (`runner.py`), and what they counted is compared with what was done (`judging.py`). The
result is kept next to the ceilings (`kept.py`); the doctor and the daemon read it there (`caveats.py`).
"""
