"""Experiment trackers that a job can be published to: one file each, and what all of them get."""
