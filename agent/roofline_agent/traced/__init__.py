"""What a framework's profiler recorded of a rank's steps, read by a process of its own."""
