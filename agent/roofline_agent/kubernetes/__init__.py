"""Pods that ask to be recorded get what a rank needs: the mark socket, the hooks, and its names."""
