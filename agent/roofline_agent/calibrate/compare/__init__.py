"""Our ceilings next to those of other tools: of a file they wrote, or run in turn with our own kernels."""
