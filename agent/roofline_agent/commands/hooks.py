"""`roofline-agent hooks`: where the hooks are, for PYTHONPATH."""

from __future__ import annotations

from pathlib import Path


def hooks() -> None:
    """Print the folder to put on PYTHONPATH, so that all Python processes mark their steps.

    Example:  export PYTHONPATH="$(roofline-agent hooks)${PYTHONPATH:+:$PYTHONPATH}"

    For clusters, in a login profile, a job prolog or a container image, instead of `roofline-agent run`
    before each rank: steps are marked, kernels of oneDNN and MKL are not recorded. Costs 2 ms at the start of
    a Python process; hooks load once TensorFlow, Keras, torch or Horovod is imported, do nothing without an
    agent, and stay away with ROOFLINE_DISABLE=1 and under python -E, -I and -S.
    """
    print(Path(__file__).parents[1] / "hooks" / "inject")
