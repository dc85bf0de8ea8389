"""Stands for a training in compose.yaml: 200 steps of 20 ms, marked for the agent of its node."""

import sys
import time

import roofline_step

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
for step in range(steps):
    with roofline_step.step(step, examples=32):
        end = time.process_time() + 0.02
        while time.process_time() < end:
            sum(range(1000))
print(f"{steps} steps done", flush=True)
