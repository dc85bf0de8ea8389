"""Traces in Chrome's format: Horovod timelines and PyTorch's profiler."""
