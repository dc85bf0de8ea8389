"""The table of steps and the timeline."""
