"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine is no fault of the code: no test is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Hundreds of processes are started: else each of them would compile our sources anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
