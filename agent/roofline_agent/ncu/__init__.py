"""GPU kernels of chosen steps through Nsight Compute (`roofline-agent run --ncu STEPS`).

The step hooks open and close the profiler's range (hooks/profiler_range.py); ncu runs each kernel in it
several times to count everything, prints its table when the command has ended, and the kernels go to the
agent as those of oneDNN do. Whether ncu works is tried out before the command starts, on a kernel of our own:
an ncu that cannot profile ends the program it watches.
"""
