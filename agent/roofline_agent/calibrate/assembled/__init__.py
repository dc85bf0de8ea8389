"""Kernels for x86-64 from machine code that is assembled here, so that a node needs no compiler.

`assembler` knows the instructions, `peaks`, `streams` and `tiles` make kernels of them, `clock` measures the
core's clock behind each; `kernel_set` offers all that a CPU can run.
"""
