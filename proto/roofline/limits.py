"""What one batch may hold at most: the server refuses more as a whole, so agents leave it out before."""

from __future__ import annotations

import re

MAX_BATCH_BYTES = 8 << 20
MAX_TIME_NS = 2**62  # all times lie between this and its negative, so that differences fit into int64
MAX_NAME = 256  # characters of a name

# Becomes a part of names of columns.
SPAN_NAME = re.compile(r"[a-z]+(\.[a-z0-9_-]+)+")
MAX_SPAN_NAMES, MAX_SPAN_NAME = 256, 64  # different ones, characters of one
MAX_OF_SPAN = 2**50  # things that a span stands for, or ns: 13 days of a thread's time in a step
MAX_BYTES = 2**50  # of a span; and so many examples of a step
MAX_FORMS = 2048  # of steps that differ in numbers only
