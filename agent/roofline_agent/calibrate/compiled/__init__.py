"""Kernels from C, compiled on the node, for processors that nobody assembles machine code for here (Arm).

`kernels.c` is the code and lists what it has, `compiler` makes a library of it, `kernel_set` offers what the
library lists.
"""
