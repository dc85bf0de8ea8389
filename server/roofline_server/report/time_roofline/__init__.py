"""The time-based roofline of kernels or steps."""
