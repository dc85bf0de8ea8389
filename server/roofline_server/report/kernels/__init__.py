"""Which kernels ranks executed, and how they are called."""
